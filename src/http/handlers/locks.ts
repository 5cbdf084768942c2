import { RemoteKeys } from "../../cloudflare/calls/remote-keys.ts";
import { type Ask, type Performed, POLL_HEADER, type Polled } from "../../cloudflare/http-session/asks.ts";
import { mayUse } from "../../core/auth/principal.ts";
import { randomHex } from "../../core/hex.ts";
import { type Outcome, STATUSES } from "../../core/protocols/statuses.ts";
import type { KeyRequest } from "../../core/session/key-calls.ts";
import { httpSessionName } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { REQUESTS, type RequestOf } from "../openapi/schemas.ts";
import { fail, json } from "../reply/errors.ts";
import { endOfPoll, type PollEnd } from "../reply/poll.ts";
import { MAX_BODY_BYTES, parseBody, readBody } from "../request/body.ts";
import type { AppContext, Handler } from "../request/context.ts";
import type { Parsed } from "../request/fields.ts";
import { labelOf } from "../request/label.ts";
import { isSessionId, keyFault, segmentAt } from "../request/path.ts";
import { familyOf, KEY_REQUESTS, type KeyOperationId } from "./key-requests.ts";
import { noteRelease, takeReleases } from "./release-notes.ts";
import { type AskSession, sessionOf } from "./sessions.ts";

const KEY_SEGMENT = 2;
const SESSION_HEADER = "X-Dflockd-Session";
const LABEL_HEADER = "X-Holdfast-Label";
/** Clients hardly ever hang up sooner than this, and checking for it costs a millisecond. */
const QUICK_MS = 5;
const WITHDRAWAL_PAUSES_MS = [100, 400, 1_600, 5_000];

let askIds: { readonly prefix: string; next: number } | undefined;

/** A unique id: random per isolate, then counted. */
function newAskId(): string {
  askIds ??= { prefix: randomHex(8), next: 0 };
  return `${askIds.prefix}-${(askIds.next++).toString(36)}`;
}

/** A handler for one operation on a key, with the checks common to all of them, in order. */
export function keyOperation<Id extends KeyOperationId>(id: Id): Handler {
  const [family, requestOf] = [familyOf(id), KEY_REQUESTS[id]];
  return async (context) => {
    const key = segmentAt(context.req.path, KEY_SEGMENT);
    const fault = keyFault(key);
    if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
    if (!mayUse(context.get("principal"), family, key)) return fail(context, "forbidden");
    const sessionId = context.req.header(SESSION_HEADER) ?? "";
    if (sessionId === "") return fail(context, "bad_request", `header ${SESSION_HEADER} is required`);
    if (!isSessionId(sessionId)) return fail(context, "session_gone");
    const label = labelOf(context.req.header(LABEL_HEADER));
    if (!label.ok) return fail(context, "bad_request", label.detail);
    const askSession = sessionOf(context, sessionId);
    try {
      const body = await bodyOf(context, askSession, id);
      if (body === "session_gone") return fail(context, "session_gone");
      if (!body.ok) return fail(context, "bad_request", body.detail);
      const request = requestOf(key, body.value);
      const released = request.type === "release" ? undefined : takeReleases(httpSessionName(sessionId));
      const ask = { id: newAskId(), request, label: label.value, ...(released && { released }) };
      const replying = put(context, askSession, ask);
      // Otherwise the Worker would end when the client leaves, and the request could not be withdrawn.
      context.executionCtx.waitUntil(replying.catch(() => {}));
      return await replying;
    } catch (error) {
      logged("session_unreachable")(error);
      return fail(context, "unavailable");
    }
  };
}

/**
 * The body. If it is late or invalid, checks that the session exists: `session_gone` takes precedence over a bad body.
 */
async function bodyOf<Id extends KeyOperationId>(
  context: AppContext,
  askSession: AskSession,
  id: Id,
): Promise<Parsed<RequestOf<Id>> | "session_gone"> {
  const { readTimeoutMs: deadlineMs } = context.get("config");
  const { schema, mayBeEmpty } = REQUESTS[id];
  let isFound = false;
  const isWanted = async () => {
    isFound ||= await askSession((session) => session.touch());
    return isFound;
  };
  const read = await readBody(context.req.raw, { maxBytes: MAX_BODY_BYTES, deadlineMs, isWanted });
  const parsed = read.ok ? (parseBody(schema, read.bytes, { mayBeEmpty }) as Parsed<RequestOf<Id>>) : read;
  return parsed.ok || (await isWanted()) ? parsed : "session_gone";
}

/** Sends a request to its session. If its outcome stays unknown or its client has left, it is withdrawn. */
async function put(context: AppContext, askSession: AskSession, ask: Ask): Promise<Response> {
  if (await isGivenBack(context, ask)) return context.body(null, 204);
  // A request without lasting effects needs no withdrawal, and reading the signal has a cost.
  if (!leavesTraces(ask.request)) {
    const told = await perform(askSession, ask);
    if (told.type === "waits") throw new Error(`a ${ask.request.type} waits`);
    return told.type === "answered" ? replyOf(context, ask.request, told.outcome) : fail(context, "session_gone");
  }
  const { signal } = context.req.raw;
  const waitUntil = (work: Promise<unknown>) => context.executionCtx.waitUntil(work);
  const withdraw = () => waitUntil(takeBack(askSession, ask, signal.aborted).catch(logged("withdrawal_failed")));
  try {
    const end = await endOf(askSession, ask, signal);
    if (end.type === "answered" && !signal.aborted) return replyOf(context, ask.request, end.outcome);
    if (end.type === "gone") return fail(context, "session_gone");
    // The session already knows of an abandoned poll. A lost one may have been granted the lock before.
    if (end.type !== "vanished") withdraw();
    // The withdrawal may have overtaken the request.
    if (end.type === "left") waitUntil(end.call.then(({ type }) => type !== "gone" && withdraw(), withdraw));
    return fail(context, end.type === "lost" ? "unavailable" : "client_canceled");
  } catch (error) {
    withdraw();
    throw error;
  }
}

/** Releases at the key. If the session does not hold the token, or the key is unreachable, the session has to answer. */
async function isGivenBack(context: AppContext, { request, label }: Ask): Promise<boolean> {
  const session = context.get("session");
  if (request.type !== "release" || label !== undefined || session === undefined) return false;
  const { key, token } = request;
  const giving = new RemoteKeys(context.env).giveBack(key, token, session);
  const isGiven = await giving.then(
    ({ status }) => status === "released",
    () => false,
  );
  const waitUntil = (promise: Promise<unknown>) => context.executionCtx.waitUntil(promise);
  if (isGiven) noteRelease(context.env, session, { key, token }, waitUntil);
  return isGiven;
}

/** Has a session withdraw a request, retrying if it cannot be reached. A `wait` that its client has left ends its place. */
async function takeBack(askSession: AskSession, { request, id }: Ask, isAborted: boolean): Promise<void> {
  const hasLeft = isAborted && request.type === "wait";
  const withdraw = () => askSession((session) => session.withdraw(request.key, id, { hasLeft }));
  for (const pauseMs of WITHDRAWAL_PAUSES_MS) {
    try {
      return await withdraw();
    } catch {
      await scheduler.wait(pauseMs);
    }
  }
  await withdraw();
}

const leavesTraces = ({ type }: KeyRequest) => type !== "release" && type !== "renew";

/** The client has hung up during the call to its session. The call goes on. */
interface Left {
  readonly type: "left";
  readonly call: Promise<Performed>;
}

/** Sends a request to its session and, if it has to wait, waits for its outcome. */
async function endOf(askSession: AskSession, ask: Ask, signal: AbortSignal): Promise<PollEnd | Left> {
  const askedAt = Date.now();
  const call = perform(askSession, ask);
  const performed = await Promise.race([call, hangUp(signal)]);
  if (performed === undefined) return { type: "left", call };
  if (performed.type === "waits") {
    const headers = { Upgrade: "websocket", [POLL_HEADER]: ask.id };
    const poll = await askSession((session) => session.fetch("http://session/", { headers }));
    return poll.webSocket ? endOfPoll(poll.webSocket, signal) : poll.json<Polled>();
  }
  // workerd reads from connections only when nothing else is left to do (2026-11): this lets it report a hang-up that
  // it has not read yet.
  if (Date.now() - askedAt >= QUICK_MS) await scheduler.wait(0);
  return performed;
}

/** Resolves when the client hangs up. */
function hangUp(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined));
  });
}

function perform(askSession: AskSession, ask: Ask): Promise<Performed> {
  return askSession((session) => session.perform(ask) as Promise<Performed>);
}

function granted({ token, leaseSeconds }: Outcome, status: "ok" | "acquired") {
  return { status, token, lease_ttl_s: leaseSeconds };
}

/** An outcome as an HTTP reply. */
function replyOf(context: AppContext, { type }: KeyRequest, outcome: Outcome): Response {
  const { status, leaseSeconds } = outcome;
  const error = STATUSES[status].http;
  if (error !== undefined) return fail(context, error);
  if (type === "release") return context.body(null, 204);
  if (type === "renew") return json(context, { remaining_s: leaseSeconds });
  if (status === "ok" || status === "acquired") return json(context, granted(outcome, status));
  return json(context, { status });
}
