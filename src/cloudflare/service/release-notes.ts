/**
 * REST releases go straight to the key, so that the next waiter is served sooner. The session still has to learn that the
 * token is gone and that its client is alive. That travels with the session's next request, or alone after a second. A
 * lost note costs one needless visit to the key when the session ends, and nothing else.
 */

import { logged } from "../../log.ts";
import type { Env } from "../env.ts";
import type { Released } from "../http-session/asks.ts";
import { objectsOf } from "../placement.ts";

type WaitUntil = (promise: Promise<unknown>) => void;

const SENT_AFTER_MS = 1_000;
const MAX_SESSIONS_AT_ONCE = 40;

// Shared by all requests of the isolate as plain data: the platform lets none wait for another's promise.
const notes = new Map<string, Released[]>();
/** When a request will send what is left, unless the runtime ends its work. */
let dueAt = Number.NEGATIVE_INFINITY;

export function noteRelease(env: Env, session: string, released: Released, waitUntil: WaitUntil): void {
  const known = notes.get(session);
  if (known) known.push(released);
  else notes.set(session, [released]);
  sendInTime(env, waitUntil);
}

/** Takes what the session has not been told yet. The caller has to tell it. */
export function takeReleases(session: string): readonly Released[] | undefined {
  const released = notes.get(session);
  notes.delete(session);
  return released;
}

function sendInTime(env: Env, waitUntil: WaitUntil): void {
  const now = Date.now();
  if (now < dueAt && dueAt <= now + SENT_AFTER_MS) return;
  dueAt = now + SENT_AFTER_MS;
  waitUntil(scheduler.wait(SENT_AFTER_MS).then(() => send(env)));
}

async function send(env: Env): Promise<void> {
  while (notes.size > 0) {
    const sessions = [...notes.keys()].slice(0, MAX_SESSIONS_AT_ONCE);
    await Promise.all(sessions.map((session) => tell(env, session, takeReleases(session) ?? [])));
  }
}

async function tell(env: Env, session: string, released: readonly Released[]): Promise<void> {
  const object = objectsOf(env, "HTTP_SESSION").getByName(session);
  await object.touch({ released }).catch(logged("session_unreachable"));
}
