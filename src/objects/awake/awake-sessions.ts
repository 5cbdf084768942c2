/**
 * HTTP sessions of this isolate that are awake and have nothing to do, longest idle first. On plain workerd each has files open until
 * it has been idle for a minute or two, and the process dies when it may open no more. So there may be a limit: whoever is about to
 * be idle beyond it first puts another one to rest. The files of a session at work belong to the connection that it works for.
 *
 * Objects share this as plain data: the platform lets none wait for another's promise.
 */
import { log } from "../../log.ts";
import { configOf, type Env } from "../env.ts";
import { isResting } from "./resting.ts";
import { WakeCalendar } from "./wake-calendar.ts";

/** workerd ends an object that has been idle for so long by itself (70 to 140 s, workerd 2026-11). */
const ASLEEP_AFTER_MS = 150_000;
/** A session may be at work after all, or about to wake: then the next one is asked. */
const MAX_ATTEMPTS = 8;

/** Sessions that wake by themselves have no more to do than to end: twice as many as keys may do so at a time. */
const WAKES_PER_PLACE = 2;

/** Since when each is idle, longest first. */
const idle = new Map<string, number>();
const calendar = new WakeCalendar();

/** Whether idle sessions are put to rest at all. */
export function isLimited(env: Env): boolean {
  return configOf(env).maxAwakeSessions > 0;
}

/** The session has something to do, or goes to rest. */
export function noteNotIdle(session: string): void {
  idle.delete(session);
}

export function noteIdle(env: Env, session: string): void {
  idle.delete(session);
  if (isLimited(env)) idle.set(session, Date.now());
}

/** When a session without a client that wants to wake at `time` by itself may do so: an alarm opens its files before it can ask. */
export function bookWakeUp(env: Env, time: number): number {
  const { maxAwakeSessions } = configOf(env);
  return maxAwakeSessions === 0 ? time : calendar.book(time, Date.now(), maxAwakeSessions * WAKES_PER_PLACE);
}

/** Lets one more session be idle, in place of another if need be. False if none of them comes to rest. */
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

/** Puts the session to rest that has been idle for the longest time. One that has to stay notes itself as idle again. */
async function restIdlest(env: Env): Promise<boolean> {
  const [session] = idle.keys();
  if (session === undefined) return false;
  idle.delete(session);
  try {
    await env.HTTP_SESSION.getByName(session).rest();
    return false;
  } catch (error) {
    // An object that cannot be started has no files open either.
    if (!isResting(error)) log("warn", "session_unreachable", { error: String(error) });
    return true;
  }
}
