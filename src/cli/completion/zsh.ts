import { candidatesFunction } from "./candidates.ts";
import type { CompletedCommand } from "./words.ts";

/** Works as a file in `fpath` and with `eval`. */
export function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef holdfast
# Completion of holdfast for zsh: eval "$(holdfast completion zsh)", after compinit
${candidatesFunction(commands)}

_holdfast() {
  local command= words_found
  (( CURRENT > 2 )) && command=\${words[2]}
  local separator=\${words[(i)--]}
  if (( CURRENT > 3 && separator < CURRENT )); then
    (( CURRENT -= separator ))
    shift $separator words
    _normal
    return
  fi
  words_found=$(_holdfast_words "$command" "\${words[CURRENT-1]}")
  case "$words_found" in
    @files) _files ;;
    @any) ;;
    *) compadd -- \${=words_found} ;;
  esac
}
if [ "$funcstack[1]" = "_holdfast" ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;
}
