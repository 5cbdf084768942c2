import { hash } from "../../core/hash.ts";
import { randomHex } from "../../core/hex.ts";
import type { Notice } from "../../core/session/effects.ts";
import { kindOfSession, newSessionId } from "../../core/session-names.ts";
import { callAwake } from "../awake/resting.ts";
import type { Env } from "../env.ts";
import { objectsOf } from "../placement.ts";
import type { SessionObject } from "../session/session-object.ts";
import type { Listener } from "./notices.ts";

/**
 * Self-hosted, a new object is a new database: several files and fsyncs, which would be most of the cost of a connection.
 * So as many sessions as this share one (ADR 23). A fault of the object costs all of them their sockets, and the more
 * of them work at the same time, the slower each is: with eight a busy server does a seventh less, with four nothing.
 */
const SESSIONS_PER_OBJECT = 4;
/** An object takes new sessions for this long: its file may be swept when it is twice as old and empty. */
const OBJECT_TAKES_MS = 5_000;
const SHARED_PREFIX = "shared-";
/** Half of a session id names the session, a quarter its object, and a quarter tells it from an id without an object. */
const SHARED_ID = /^([0-9a-f]{16})([0-9a-f]{8})([0-9a-f]{8})$/;

interface Filling {
  readonly object: string;
  readonly until: number;
  room: number;
}

/** By kind of connection: the object that takes new sessions. */
const filling = new Map<string, Filling>();

/**
 * The id of a new session on a socket, never used twice. What one kind of client may cause in an object, such as a full
 * disk on a write, must not hit those that hardly ever write: kinds do not share.
 */
export function newSocketSession(
  env: Env,
  { transport, protocol = "dflockd" }: { readonly transport: string; readonly protocol?: string | undefined },
): string {
  if (env.SELF_HOSTED === undefined) return newSessionId();
  const kind = `${transport} ${protocol}`;
  const now = Date.now();
  let current = filling.get(kind);
  if (!current || current.room === 0 || now >= current.until || current.until - now > OBJECT_TAKES_MS) {
    current = { object: randomHex(4), until: now + OBJECT_TAKES_MS, room: SESSIONS_PER_OBJECT };
    filling.set(kind, current);
  }
  current.room -= 1;
  const own = randomHex(8);
  return own + current.object + checkOf(own, current.object);
}

/** The name of the object in which a session on a socket lives. */
export function objectNameOf(session: string): string {
  const [, own, object, check] = SHARED_ID.exec(session) ?? [];
  return own && object && check === checkOf(own, object) ? SHARED_PREFIX + object : session;
}

/** Whether several sessions may live in the object of this name. */
export function isShared(object: string): boolean {
  return object.startsWith(SHARED_PREFIX);
}

/** An id of 128 random bits passes by chance once in four thousand million times, and then has an object to itself. */
function checkOf(own: string, object: string): string {
  return hash(`${own} in ${object}`).toString(16).padStart(8, "0");
}

/** The object of a session, as keys and the directory call it. If it goes to rest during a call, it is woken again. */
export function sessionObject(env: Env, session: string): Listener {
  const call = <Result>(ask: (listener: Listener) => Promise<Result>) => callAwake(() => ask(listenerOf(env, session)));
  return {
    deliver: (notice) => {
      let next = notice;
      return call((listener) => {
        const now = next;
        next = repeated(notice);
        return listener.deliver(now);
      });
    },
    lose: (loss) => call((listener) => listener.lose(loss)),
    want: (want) => call((listener) => listener.want(want)),
    isLive: () => call((listener) => listener.isLive()),
  };
}

function listenerOf(env: Env, session: string): Listener {
  if (kindOfSession(session) === "httpSessions")
    return objectsOf(env, "HTTP_SESSION").getByName(session) as unknown as Listener;
  const object = objectsOf(env, "SESSION").getByName(objectNameOf(session)) as unknown as SessionObject;
  return {
    deliver: (notice) => object.deliver(notice, session),
    lose: (loss) => object.lose(loss, session),
    want: (want) => object.want(want, session),
    isLive: () => object.isLive(session),
  };
}

/** The same notice again: an object that rests now may have handed the offer over before. */
function repeated({ offer, ...notice }: Notice): Notice {
  return offer ? { ...notice, mayBeTold: true } : notice;
}
