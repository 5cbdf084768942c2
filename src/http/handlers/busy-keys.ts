/**
 * Keys on which the last request that could wait had to. Requests of one isolate share this. It only chooses the cheaper
 * way to make the next one: either way leads to the same answer.
 */
const busy = new Set<string>();
/** Beyond this many, the one noted first is forgotten. */
const MAX_KEYS = 1_000;

export function isBusy(key: string): boolean {
  return busy.has(key);
}

export function noteBusy(key: string, isBusy: boolean): void {
  if (!isBusy) busy.delete(key);
  else if (!busy.has(key)) {
    const [first = ""] = busy;
    if (busy.size >= MAX_KEYS) busy.delete(first);
    busy.add(key);
  }
}
