/** Whether it is less than `ms` since then. False also if the clock was set back meanwhile. */
export function isRecent(now: number, since: number, ms: number): boolean {
  return now >= since && now - since < ms;
}
