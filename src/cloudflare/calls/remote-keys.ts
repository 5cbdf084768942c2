import type {
  ClaimCommand,
  ClaimOutcome,
  CurrentHold,
  HoldSelector,
  RefreshCommand,
  RefreshOutcome,
  RelayAnswer,
  RelayQuestion,
  ReleaseOutcome,
  RemoveOutcome,
  RenewOutcome,
  RoundStep,
} from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import type { KeyCall, KeyOutcome } from "../../core/session/key-calls.ts";
import type { PartialEnv } from "../env.ts";
import type { KeyObject } from "../key/key-object.ts";
import { Turns } from "../pacing/turns.ts";
import { keyObject } from "../placement.ts";
import { KeyLane, type LaneCall } from "./key-lane.ts";
import { LISTENER_HEADER } from "./replies.ts";

/** How a request without a session calls keys. */
export interface SessionlessKeys {
  cancel(key: string, request: string): Promise<void>;
  claim(key: string, command: ClaimCommand): Promise<ClaimOutcome>;
  current(key: string): Promise<CurrentHold | null>;
  refresh(key: string, command: RefreshCommand): Promise<RefreshOutcome>;
  remove(key: string, selector: HoldSelector): Promise<RemoveOutcome>;
  /** The token is all it takes to release and renew a hold. */
  release(key: string, token: string, session: string): Promise<ReleaseOutcome>;
  renew(key: string, token: string, leaseSeconds: number): Promise<RenewOutcome>;
  /** The caller's end of a socket to the key. The claim is sent on it, and its outcome arrives on it. */
  listen(key: string, request: string): Promise<WebSocket>;
}

/** How the relay of this deployment calls keys. */
export interface RelayKeys {
  relay(key: string, question: RelayQuestion): Promise<RelayAnswer | null>;
  round(key: string, step: RoundStep): Promise<bigint | boolean | undefined>;
}

/** A key's methods as its stub offers them; arguments and results are plain values. */
type KeyStub = Pick<
  KeyObject,
  KeyCall["type"] | "giveBack" | Exclude<keyof SessionlessKeys, "listen"> | keyof RelayKeys
> &
  Pick<Fetcher, "fetch">;

/** A stub and the number of calls in flight on it. */
interface OpenStub {
  readonly stub: KeyStub;
  calls: number;
}

const ATTEMPTS = 3;
const MAX_OPEN_STUBS = 256;
/** Concurrent calls of one session. More would not be answered sooner and would delay other sessions. */
const CALLS = { width: 16, perPause: 16 };

/**
 * Keys behind their Durable Objects. Retryable platform errors are retried: every call is safe to repeat, and gets the
 * answer of the first one if that was carried out. Requests, claims, releases and removals have ids for that.
 */
export class RemoteKeys implements SessionlessKeys, RelayKeys {
  readonly #env: PartialEnv;
  /** One per key: only calls on the same stub are guaranteed to arrive in order. */
  readonly #stubs = new Map<string, OpenStub>();
  /** By key: the calls that have not been answered. */
  readonly #lanes = new Map<string, KeyLane<OpenStub>>();
  readonly #turns = new Turns(CALLS);

  constructor(env: PartialEnv) {
    this.#env = env;
  }

  /**
   * Makes a call of a session. Calls of one session to one key arrive in the order in which they were made, also those
   * that are made again. `mayRepeat` is asked before a call that failed, and may have been carried out, is made again.
   */
  ask(key: string, call: KeyCall, mayRepeat: () => boolean): Promise<KeyOutcome> {
    return this.#call<KeyOutcome>(key, (stub) => makeCall(stub, call), mayRepeat);
  }

  /** The session's client has waited for all its answers, and workerd has read from others meanwhile. */
  clientWaited(): void {
    this.#turns.rested();
  }

  /** Releases what the session itself holds, on its behalf. The session may release it under the same id. */
  giveBack(key: string, token: string, session: string, id: string): Promise<ReleaseOutcome> {
    return this.#call(key, (stub) => stub.giveBack(token, session, id));
  }

  cancel(key: string, request: string): Promise<void> {
    return this.#call(key, (stub) => stub.cancel(request));
  }

  claim(key: string, command: ClaimCommand): Promise<ClaimOutcome> {
    return this.#call(key, (stub) => stub.claim(command));
  }

  current(key: string): Promise<CurrentHold | null> {
    return this.#call(key, (stub) => stub.current());
  }

  refresh(key: string, command: RefreshCommand): Promise<RefreshOutcome> {
    return this.#call(key, (stub) => stub.refresh(command));
  }

  remove(key: string, selector: HoldSelector): Promise<RemoveOutcome> {
    const id = randomHex(8);
    return this.#call(key, (stub) => stub.remove(selector, id));
  }

  release(key: string, token: string, session: string): Promise<ReleaseOutcome> {
    const id = randomHex(8);
    return this.#call(key, (stub) => stub.release(token, session, id));
  }

  renew(key: string, token: string, leaseSeconds: number): Promise<RenewOutcome> {
    return this.#call(key, (stub) => stub.renew(token, leaseSeconds));
  }

  relay(key: string, question: RelayQuestion): Promise<RelayAnswer | null> {
    return this.#call(key, (stub) => stub.relay(question));
  }

  round(key: string, step: RoundStep): Promise<bigint | boolean | undefined> {
    return this.#call(key, (stub) => stub.round(step));
  }

  listen(key: string, request: string): Promise<WebSocket> {
    const headers = { Upgrade: "websocket", [LISTENER_HEADER]: request };
    return this.#call(key, async (stub) => {
      const { webSocket } = await stub.fetch("http://key/", { headers });
      if (!webSocket) throw new Error("the key opened no socket");
      return webSocket;
    });
  }

  /** Makes a call after those to the same key, and again if it fails for a moment. Other keys do not wait for that. */
  async #call<Outcome>(
    key: string,
    ask: (stub: KeyStub) => Promise<Outcome>,
    mayRepeat: () => boolean = () => true,
  ): Promise<Outcome> {
    const lane = this.#lanes.get(key) ?? new KeyLane<OpenStub>(() => this.#stubs.get(key));
    this.#lanes.set(key, lane);
    const call = lane.join();
    let failure: { readonly error: unknown } | undefined;
    try {
      for (let attempt = 1; ; ) {
        try {
          // Waiting for the calls before it takes no turn.
          const sent = await this.#turns.run(async () => {
            if (!lane.mayGo(call)) return undefined;
            return failure && !mayRepeat() ? failure : this.#send(key, ask, lane, call);
          });
          if (!sent) await new Promise<void>((resume) => lane.wait(call, resume));
          else if ("outcome" in sent) return sent.outcome;
          else break;
        } catch (error) {
          failure = { error };
          if (attempt === ATTEMPTS || !isRetryable(error)) break;
          await scheduler.wait(Math.random() * 50 * 2 ** attempt);
          attempt += 1;
        }
      }
      throw failure?.error;
    } finally {
      lane.leave(call);
      if (lane.isEmpty) this.#lanes.delete(key);
    }
  }

  async #send<Outcome>(
    key: string,
    ask: (stub: KeyStub) => Promise<Outcome>,
    lane: KeyLane<OpenStub>,
    call: LaneCall<OpenStub>,
  ): Promise<{ readonly outcome: Outcome }> {
    const open = this.#stubFor(key);
    open.calls += 1;
    lane.sent(call, open);
    try {
      return { outcome: await ask(open.stub) };
    } catch (error) {
      // A stub that has thrown may be broken for good: the next call needs a new one.
      if (this.#stubs.get(key) === open) this.#stubs.delete(key);
      lane.failed(call);
      throw error;
    } finally {
      open.calls -= 1;
    }
  }

  #stubFor(key: string): OpenStub {
    const known = this.#stubs.get(key);
    if (known) return known;
    if (this.#stubs.size >= MAX_OPEN_STUBS) this.#dropIdleStubs();
    const open = { stub: keyObject(this.#env, key) as unknown as KeyStub, calls: 0 };
    this.#stubs.set(key, open);
    return open;
  }

  #dropIdleStubs(): void {
    for (const [key, { calls }] of this.#stubs) if (calls === 0) this.#stubs.delete(key);
  }
}

function makeCall(stub: KeyStub, call: KeyCall): Promise<KeyOutcome> {
  switch (call.type) {
    case "acquire":
      return stub.acquire(call.command);
    case "enqueue":
      return stub.enqueue(call.command);
    case "wait":
      return stub.wait(call.command);
    case "release":
      return stub.release(call.token, call.session, call.id);
    case "renew":
      return stub.renew(call.token, call.leaseSeconds, call.isWatched);
    case "prolong":
      return stub.prolong(call.token, call.session, call.leaseMs);
    case "fenceOfHolder":
      return stub.fenceOfHolder();
    case "pickUp":
      return stub.pickUp(call.request);
    case "cancel": {
      const { type: _, request, ...options } = call;
      return stub.cancel(request, options) as Promise<undefined>;
    }
    case "watch":
      return stub.watch(call.session) as Promise<undefined>;
    case "leave":
      return stub.leave(call.session, { keepsReported: call.keepsReported }) as Promise<undefined>;
  }
}

/** The platform marks failures that are safe and worthwhile to retry. */
function isRetryable(error: unknown): boolean {
  const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
  return retryable === true && overloaded !== true;
}
