const TICK_MS = 5;

let lived = 0;
let seen = performance.now();
setInterval(livedMs, TICK_MS).unref();

/** How long this process has run. A tick that comes late counts as a few: the process did not run in between. */
function livedMs(): number {
  const now = performance.now();
  lived += Math.min(now - seen, 4 * TICK_MS);
  seen = now;
  return lived;
}

/** How long this process has stood still while it wanted to run. */
export function stalledMs(): number {
  const now = performance.now();
  return now - livedMs();
}

/**
 * Starts a stopwatch and returns a function that reads it, in milliseconds. Use it for upper limits. It leaves out time
 * in which this process did not run at all, because then the whole machine stalled and the service could not run either.
 */
export function stopwatch(): () => number {
  const start = livedMs();
  return () => livedMs() - start;
}
