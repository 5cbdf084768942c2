/** Passes on what a server logs, line by line, without the warnings of workerd itself: they are no news to who measures. */
const WORKERD_WARNING = /^workerd\/\S+: warning: /;

export function withoutWarnings(print: (line: string) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (!WORKERD_WARNING.test(line)) print(`${line}\n`);
  };
}
