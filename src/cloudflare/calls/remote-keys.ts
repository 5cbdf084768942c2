import { randomHex } from "../../core/hex.ts";
import type { LabelsOf } from "../../core/metrics/families.ts";
import type { PartialEnv } from "../env.ts";
import type { KeyObject } from "../key/key-object.ts";
import { countAlong } from "../metrics/isolate-tally.ts";
import { Turns } from "../pacing/turns.ts";
import { keyObject } from "../placement.ts";
import type { KeyObjectCommand, KeyObjectOutcomeOf } from "./key-calls.ts";
import { KeyLane, type LaneCall } from "./key-lane.ts";
import { LISTENER_HEADER } from "./replies.ts";

type KeyStub = DurableObjectStub<KeyObject>;

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
 * answer of the first one if that was carried out. Requests and releases are recognised by their ids.
 */
export class RemoteKeys {
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
   * Has a key carry out a command. Commands to one key arrive in the order in which they were made, also those that are made
   * again. `mayRepeat` is asked before one that failed, and may have been carried out, is made again.
   */
  async command<Command extends KeyObjectCommand>(
    key: string,
    command: Command,
    mayRepeat: () => boolean = () => true,
  ): Promise<KeyObjectOutcomeOf<Command["type"]>> {
    const named = { id: randomHex(8), ...command };
    const call = this.#call(key, (stub) => stub.command(named), mayRepeat);
    const { outcome } = await counted(command.type, call);
    return outcome as KeyObjectOutcomeOf<Command["type"]>;
  }

  /** The session's client has waited for all its answers, and workerd has read from others meanwhile. */
  clientWaited(): void {
    this.#turns.rested();
  }

  /** The caller's end of a socket to the key. A claim is sent on it, and its outcome arrives on it. */
  listen(key: string, request: string): Promise<WebSocket> {
    const headers = { Upgrade: "websocket", [LISTENER_HEADER]: request };
    const call = this.#call(key, async (stub) => {
      const { webSocket } = await stub.fetch("http://key/", { headers });
      if (!webSocket) throw new Error("the key opened no socket");
      return webSocket;
    });
    return counted("listen", call);
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
            if (failure && !mayRepeat()) return failure;
            if (failure) countAlong("key_call_retries_total", {});
            return this.#send(key, ask, lane, call);
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
    const open = { stub: keyObject(this.#env, key), calls: 0 };
    this.#stubs.set(key, open);
    return open;
  }

  #dropIdleStubs(): void {
    for (const [key, { calls }] of this.#stubs) if (calls === 0) this.#stubs.delete(key);
  }
}

/** Counts what came of a call, with all its repetitions. */
async function counted<Answer>(call: LabelsOf<"rpc_calls_total">["call"], answer: Promise<Answer>): Promise<Answer> {
  let outcome: LabelsOf<"rpc_calls_total">["outcome"] = "failed";
  try {
    const answered = await answer;
    outcome = "answered";
    return answered;
  } finally {
    countAlong("rpc_calls_total", { call, outcome });
  }
}

/** The platform marks failures that are safe and worthwhile to retry. */
function isRetryable(error: unknown): boolean {
  const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
  return retryable === true && overloaded !== true;
}
