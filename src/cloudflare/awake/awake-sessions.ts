/**
 * Awake and idle HTTP sessions of this isolate, longest idle first. On plain workerd each keeps files open until it has
 * been idle for a minute or two, and the process dies when it hits its limit of open files. So the number of idle
 * sessions can be limited: a session about to exceed the limit first puts another one to rest. The files of a busy
 * session are accounted to the connection it works for.
 *
 * Objects share this as plain data: the platform does not let one await another's promise.
 */
import { log } from "../../log.ts";
import { configOf, type Env } from "../env.ts";
import { objectsOf } from "../placement.ts";
import { isResting } from "./resting.ts";
import { WakeCalendar } from "./wake-calendar.ts";

/** workerd evicts an object that has been idle for this long (70 to 140 s, workerd 2026-11). */
const ASLEEP_AFTER_MS = 150_000;
/** A session may turn out to be busy or about to wake: then the next one is tried. */
const MAX_ATTEMPTS = 8;

/** A session woken by its alarm only has to end, so twice as many of them may wake at a time as keys. */
const WAKES_PER_PLACE = 2;

/** Since when each session is idle, longest first. */
const idle = new Map<string, number>();
const calendar = new WakeCalendar();

/** Whether idle sessions are put to rest at all. */
export function isLimited(env: Env): boolean {
  return configOf(env).maxAwakeSessions > 0;
}

/** Records that the session is busy, or going to rest. */
export function noteNotIdle(session: string): void {
  idle.delete(session);
}

export function noteIdle(env: Env, session: string): void {
  idle.delete(session);
  if (isLimited(env)) idle.set(session, Date.now());
}

/** When a session that wants an alarm at `time` may have it: an alarm opens its files before it can make room. */
export function bookWakeUp(env: Env, time: number): number {
  const { maxAwakeSessions } = configOf(env);
  return maxAwakeSessions === 0 ? time : calendar.book(time, Date.now(), maxAwakeSessions * WAKES_PER_PLACE);
}

/** Makes room for one more idle session, putting another to rest if needed. False if none of them can rest. */
export async function roomToIdle(env: Env): Promise<boolean> {
  const { maxAwakeSessions } = configOf(env);
  if (maxAwakeSessions === 0) return true;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    if (countIdle(Date.now()) < maxAwakeSessions || (await restIdlest(env))) return true;
  }
  return false;
}

function countIdle(now: number): number {
  for (const [session, since] of idle) {
    if (now - since <= ASLEEP_AFTER_MS) break;
    idle.delete(session);
  }
  return idle.size;
}

/** Puts the longest idle session to rest. A session that cannot rest records itself as idle again. */
async function restIdlest(env: Env): Promise<boolean> {
  const [session] = idle.keys();
  if (session === undefined) return false;
  idle.delete(session);
  try {
    await objectsOf(env, "HTTP_SESSION").getByName(session).rest();
    return false;
  } catch (error) {
    // An object that cannot be started has no open files either.
    if (!isResting(error)) log("warn", "session_unreachable", { error: String(error) });
    return true;
  }
}
