/** Writes at most one line per second; the next one says how many were left out. */
export function rateLimitedLog(write: (line: string) => void): (line: string) => void {
  let quietUntil = 0;
  let leftOut = 0;
  return (line) => {
    const now = performance.now();
    if (now < quietUntil) {
      leftOut++;
      return;
    }
    write(`${line}${leftOut > 0 ? ` (and ${leftOut} more like it)` : ""}`);
    quietUntil = now + 1000;
    leftOut = 0;
  };
}
