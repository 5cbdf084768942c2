/**
 * Keys whose objects are awake in this isolate. On plain workerd each keeps files open until it has been idle for a
 * minute or two, and the process dies when it hits its limit of open files. So the number of awake keys can be limited:
 * waking another key then first puts one to rest that has not been used lately.
 *
 * Objects and requests share this as plain data: the platform does not let one await another's promise.
 */
import { log } from "../../log.ts";
import { configOf, type Env } from "../env.ts";
import { keyObject } from "../placement.ts";
import { AwakeList } from "./awake-list.ts";
import { isResting } from "./resting.ts";
import { WakeCalendar } from "./wake-calendar.ts";

/** Priority when waiting for room: clients that use keys come before reports and departures. */
export type Urgency = "use" | "background";

const MAKE_ROOM_AT_ONCE = { use: 16, background: 16 } as const;
const PATIENCE_MS = 10_000;
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 50;
/** A waiter that has not checked for this long has died. */
const GONE_AFTER_MS = 1_000;

interface Waiter {
  readonly urgency: Urgency;
  lookedAt: number;
}

const awake = new AwakeList();
const calendar = new WakeCalendar();
/** In order of arrival. */
const waiters = new Set<Waiter>();

/** Whether a call to the key needs no room: there is no limit, or the key is awake. */
export function hasRoom(env: Env, key: string): boolean {
  return configOf(env).maxAwakeKeys === 0 || awake.has(key);
}

/** Records that the key's object is awake, or about to be. */
export function noteAwake(env: Env, key: string): void {
  const { maxAwakeKeys } = configOf(env);
  if (maxAwakeKeys > 0) awake.add(key, Date.now());
}

/** Records that a client uses the key. Keys used regularly are put to rest last. */
export function noteUse(env: Env, key: string): void {
  const { maxAwakeKeys } = configOf(env);
  if (maxAwakeKeys > 0) awake.use(key, Date.now(), maxAwakeKeys);
}

/** Whether there is no limit, or it is not exceeded. */
export function isWithinLimit(env: Env): boolean {
  const { maxAwakeKeys } = configOf(env);
  return maxAwakeKeys === 0 || awake.count(Date.now()) <= maxAwakeKeys;
}

/** When a key that wants an alarm at `time` may have it. */
export function bookWakeUp(env: Env, time: number): number {
  const { maxAwakeKeys } = configOf(env);
  return maxAwakeKeys === 0 ? time : calendar.book(time, Date.now(), maxAwakeKeys);
}

/** Resolves when the key may be woken, putting others to rest if needed. Rejects if none of them can rest. */
export async function roomToWake(env: Env, key: string, urgency: Urgency): Promise<void> {
  const { maxAwakeKeys } = configOf(env);
  if (maxAwakeKeys === 0) return;
  const isFree = () => awake.has(key) || awake.count(Date.now()) < maxAwakeKeys;
  if (waiters.size > 0 || !isFree()) await waitForRoom(env, { urgency, lookedAt: Date.now() }, isFree);
  noteAwake(env, key);
}

async function waitForRoom(env: Env, waiter: Waiter, isFree: () => boolean): Promise<void> {
  const giveUpAt = Date.now() + PATIENCE_MS;
  waiters.add(waiter);
  try {
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
      waiter.lookedAt = Date.now();
      const isInTurn = hasTurn(waiter);
      if (isInTurn && (isFree() || ((await restOne(env)) && isFree()))) return;
      if (Date.now() > giveUpAt) throw new Error("more keys are in use than MAX_AWAKE_KEYS allows");
      if (isInTurn) pauseMs = FIRST_PAUSE_MS;
      await scheduler.wait(pauseMs);
    }
  } finally {
    waiters.delete(waiter);
  }
}

/** Whether few enough waiters are ahead: those that arrived earlier, or have priority. */
function hasTurn(waiter: Waiter): boolean {
  const now = Date.now();
  let ahead = 0;
  let isBehind = false;
  for (const other of waiters) {
    if (other === waiter) {
      isBehind = true;
      if (waiter.urgency === "use") break;
    } else if (now - other.lookedAt > GONE_AFTER_MS) waiters.delete(other);
    else if (other.urgency === "use" || (waiter.urgency === "background" && !isBehind)) ahead += 1;
    if (ahead >= MAKE_ROOM_AT_ONCE[waiter.urgency]) return false;
  }
  return true;
}

/** Puts a key to rest that has not been used lately. False if there is none, or it turned out to be busy. */
export async function restOne(env: Env): Promise<boolean> {
  const key = awake.takeIdlest(Date.now());
  if (key === undefined) return false;
  try {
    await keyObject(env, key).rest();
    awake.stayed(key, Date.now());
    return false;
  } catch (error) {
    awake.rested(key);
    // An object that cannot be started has no open files either.
    if (!isResting(error)) log("warn", "key_unreachable", { key, error: String(error) });
    return true;
  }
}
