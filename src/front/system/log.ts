/** At most one line per second; what was left out is counted in the next one. */
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
