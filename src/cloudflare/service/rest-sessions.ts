import { randomHex } from "../../core/hex.ts";
import type { Outcome } from "../../core/protocols/statuses.ts";
import { mayHold } from "../../core/session/key-calls.ts";
import { httpSessionName, newSessionId } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import type { Gone, Left, OpenedSession, RestRequest, RestSessions, SessionRefusal } from "../../service.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import type { Env } from "../env.ts";
import { type Ask, type Performed, POLL_HEADER, type Polled } from "../http-session/asks.ts";
import type { HttpSessionObject } from "../http-session/http-session-object.ts";
import { objectsOf } from "../placement.ts";
import type { WaitUntil } from "./cloudflare-service.ts";
import { endOfPoll, type PollEnd, reportHangUp } from "./poll.ts";
import { noteRelease, takeReleases } from "./release-notes.ts";

const WITHDRAWAL_PAUSES_MS = [100, 400, 1_600, 5_000];

let askIds: { readonly prefix: string; next: number } | undefined;

/** A unique id: random per isolate, then counted. */
function newAskId(): string {
  askIds ??= { prefix: randomHex(8), next: 0 };
  return `${askIds.prefix}-${(askIds.next++).toString(36)}`;
}

type SessionStub = DurableObjectStub<HttpSessionObject>;

/** The client has hung up during the call to its session. The call goes on. */
interface HungUp {
  readonly type: "hung_up";
  readonly call: Promise<Performed>;
}

/** REST sessions behind their objects, for one request of a client. */
export class CloudflareRestSessions implements RestSessions {
  readonly #env: Env;
  readonly #waitUntil: WaitUntil;

  constructor(env: Env, waitUntil: WaitUntil) {
    this.#env = env;
    this.#waitUntil = waitUntil;
  }

  async open(address: string, label: string | undefined): Promise<OpenedSession | SessionRefusal> {
    const id = newSessionId();
    const { status } = await this.#ask(httpSessionName(id), (session) => session.open({ address, label }));
    if (status === "admitted") return { status: "opened", id };
    return { status: status as SessionRefusal["status"] };
  }

  async ping(id: string): Promise<boolean> {
    return (await this.#ask(httpSessionName(id), (session) => session.touch())).isThere;
  }

  async end(id: string): Promise<boolean> {
    const name = httpSessionName(id);
    return (await this.#ask(name, (session) => session.end({ released: takeReleases(name) }))).wasThere;
  }

  perform(
    id: string,
    { request, label }: RestRequest,
    signal: AbortSignal | undefined,
  ): Promise<Outcome | Gone | Left> {
    const session = httpSessionName(id);
    const released = request.type === "release" ? undefined : takeReleases(session);
    const ask = { id: newAskId(), request, label, ...(released && { released }) };
    const replying = this.#put(session, ask, signal);
    // Otherwise the Worker would end when the client leaves, and the request could not be withdrawn.
    this.#waitUntil(replying.catch(() => {}));
    return replying;
  }

  /** Sends a request to its session. If its outcome stays unknown or its client has left, it is withdrawn. */
  async #put(session: string, ask: Ask, signal: AbortSignal | undefined): Promise<Outcome | Gone | Left> {
    if (await this.#isGivenBack(session, ask)) return { status: "ok" };
    if (!signal || !mayHold(ask.request)) {
      const told = await this.#perform(session, ask);
      if (told.type === "waits") throw new Error(`a ${ask.request.type} waits`);
      return told.type === "answered" ? told.outcome : { status: "gone" };
    }
    const withdraw = () =>
      this.#waitUntil(this.#takeBack(session, ask, signal.aborted).catch(logged("withdrawal_failed")));
    try {
      const end = await this.#endOf(session, ask, signal);
      if (end.type === "answered" && !signal.aborted) return end.outcome;
      if (end.type === "gone") return { status: "gone" };
      // The session already knows of an abandoned poll. A lost one may have been granted the lock before.
      if (end.type !== "vanished") withdraw();
      // The withdrawal may have overtaken the request.
      if (end.type === "hung_up") this.#waitUntil(end.call.then(({ type }) => type !== "gone" && withdraw(), withdraw));
      return { status: end.type === "lost" ? "unavailable" : "left" };
    } catch (error) {
      withdraw();
      throw error;
    }
  }

  /** Releases at the key. If the session does not hold the token, or the key is unreachable, the session has to answer. */
  async #isGivenBack(session: string, { request, id, label }: Ask): Promise<boolean> {
    if (request.type !== "release" || label !== undefined) return false;
    const { key, token } = request;
    const command = { type: "giveBack", token, session, id } as const;
    const isGiven = await new RemoteKeys(this.#env).command(key, command).then(
      ({ status }) => status === "released",
      () => false,
    );
    if (isGiven) noteRelease(this.#env, session, { key, token }, this.#waitUntil);
    return isGiven;
  }

  /** Has a session withdraw a request, retrying if it cannot be reached. A `wait` that its client has left ends its place. */
  async #takeBack(session: string, { request, id }: Ask, isAborted: boolean): Promise<void> {
    const hasLeft = isAborted && request.type === "wait";
    const withdraw = () => this.#ask(session, (object) => object.withdraw({ key: request.key, id, hasLeft }));
    for (const pauseMs of WITHDRAWAL_PAUSES_MS) {
      try {
        return await withdraw();
      } catch {
        await scheduler.wait(pauseMs);
      }
    }
    await withdraw();
  }

  /** Sends a request to its session and, if it has to wait, waits for its outcome. */
  async #endOf(session: string, ask: Ask, signal: AbortSignal): Promise<PollEnd | HungUp> {
    const askedAt = Date.now();
    const call = this.#perform(session, ask);
    const performed = await Promise.race([call, hangUp(signal)]);
    if (performed === undefined) return { type: "hung_up", call };
    if (performed.type === "waits") {
      const headers = { Upgrade: "websocket", [POLL_HEADER]: ask.id };
      const poll = await this.#ask(session, (object) => object.fetch("http://session/", { headers }));
      return poll.webSocket ? endOfPoll(poll.webSocket, signal) : poll.json<Polled>();
    }
    await reportHangUp(askedAt);
    return performed;
  }

  #perform(session: string, ask: Ask): Promise<Performed> {
    return this.#ask(session, (object) => object.perform(ask) as Promise<Performed>);
  }

  /** Calls a session. */
  #ask<Answer>(session: string, ask: (object: SessionStub) => Promise<Answer>): Promise<Answer> {
    // The stub of an object that has ended is permanently broken: every call needs a new one.
    return ask(objectsOf(this.#env, "HTTP_SESSION").getByName(session));
  }
}

/** Resolves when the client hangs up. */
function hangUp(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined));
  });
}
