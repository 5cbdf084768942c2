import { candidatesFunction } from "./candidates.ts";
import type { CompletedCommand } from "./words.ts";

/** What follows `--` is another command, and completed as one. */
export function bashScript(commands: readonly CompletedCommand[]): string {
  return `# Completion of holdfast for bash: eval "$(holdfast completion bash)"
${candidatesFunction(commands)}

_holdfast() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]} command= word words
  [ "$COMP_CWORD" -gt 1 ] && command=\${COMP_WORDS[1]}
  for ((word = 2; word < COMP_CWORD; word++)); do
    if [ "\${COMP_WORDS[word]}" = -- ]; then
      declare -F _command_offset >/dev/null && _command_offset $((word + 1)) || COMPREPLY=($(compgen -A command -f -- "$current"))
      return
    fi
  done
  words=$(_holdfast_words "$command" "$previous")
  case "$words" in
    @files) COMPREPLY=($(compgen -f -- "$current")) ;;
    @any) COMPREPLY=() ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -F _holdfast holdfast
`;
}
