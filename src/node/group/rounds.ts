import { FenceExhaustedError, type KeyEvent, type RoundStep } from "../../core/engine/index.ts";
import type { Question, RelayEffect } from "../../core/group/effects.ts";
import { commitMsFor, Relay, type RelayOptions } from "../../core/group/relay.ts";
import type { KeyCall, ProlongOutcome } from "../../core/session/key-calls.ts";
import type { GroupLink, NodeHost } from "../host.ts";
import type { Timed } from "../timers.ts";

/** What is done at the key of a round. */
type RoundEffect = Extract<RelayEffect, { readonly type: RoundStep["do"] }>;

/**
 * Rounds among deployments for the keys of this process. They are part of the batch: what they do at a key happens at
 * once, and a question leaves once everything it depends on is durable. Nothing of them is stored. If a batch fails,
 * its questions were never asked: the phase ends without answers, or the key gives the round up.
 */
export class Rounds implements GroupLink, Timed {
  readonly #host: NodeHost;
  readonly #relay: Relay;
  readonly #ask: (peer: string, question: Question) => void;
  readonly #prolongations = new Map<string, (isAgreed: boolean) => void>();
  #calls = 0;
  scheduledAt = Number.POSITIVE_INFINITY;

  /** `ask` sends a question to a peer. */
  constructor(host: NodeHost, options: RelayOptions, ask: (peer: string, question: Question) => void) {
    this.#host = host;
    this.#relay = new Relay(options);
    this.#ask = ask;
  }

  get dueAt(): number {
    return this.#relay.nextWake;
  }

  fire(): void {
    this.#act((relay, now) => relay.tick(now));
  }

  /** Behind the answer to the command that has caused it. */
  tell(key: string, event: Extract<KeyEvent, { readonly type: "round" | "round_over" }>): void {
    const { request, mark } = event;
    const round = { lock: key, request, mark };
    this.run((relay, now) => {
      if (event.type === "round_over") relay.over(round, now);
      else if (this.#host.sessions.get(event.session)) relay.begin({ ...round, leaseMs: event.leaseMs }, now);
      // Without a quorum it would never be granted anything, never be found gone, and block all waiters behind it.
      else this.#host.keys.ask(key, { type: "cancel", request });
    });
  }

  async prolong(key: string, ask: Extract<KeyCall, { readonly type: "prolong" }>): Promise<ProlongOutcome> {
    const { batch, keys } = this.#host;
    const { token, session, leaseMs } = ask;
    const askedAt = this.#host.now();
    const hold = await batch.ask(() => keys.ask(key, { type: "agreedHold", token, session }));
    if (!hold) return { status: "not_held" };
    if (!(await this.#prolongAtPeers(key, hold.fence, commitMsFor(hold, leaseMs)))) return { status: "kept" };
    const isLonger = await batch.ask(() => keys.ask(key, { type: "prolongAgreed", token, leaseMs, askedAt }));
    return { status: isLonger ? "prolonged" : "not_held" };
  }

  /** Enters a command of the relay into the batch. */
  run(command: (relay: Relay, now: number) => void): void {
    this.#host.batch.enter(() => this.#act(command));
  }

  /** Whether a majority keeps the lock for this long. */
  #prolongAtPeers(lock: string, fence: bigint, commitMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#calls += 1;
    const call = String(this.#calls);
    this.#prolongations.set(call, resolve);
    this.run((relay, now) => relay.prolong({ lock, call, fence, commitMs }, now));
    return promise;
  }

  #act(command: (relay: Relay, now: number) => void): void {
    command(this.#relay, this.#host.now());
    for (let effects = this.#relay.takeEffects(); effects.length > 0; effects = this.#relay.takeEffects())
      for (const effect of effects) this.#perform(effect);
    this.#host.schedule(this);
  }

  #perform(effect: RelayEffect): void {
    if (effect.type === "send") this.#host.batch.afterwards(() => this.#ask(effect.peer, effect.question));
    else if (effect.type === "prolonged") {
      this.#prolongations.get(effect.call)?.(effect.isAgreed);
      this.#prolongations.delete(effect.call);
    } else this.#atKey(effect);
  }

  #atKey(effect: RoundEffect): void {
    const { lock, type, ...step } = effect;
    const outcome = this.#step(lock, { ...step, do: type } as RoundStep);
    const now = this.#host.now();
    if (type === "keep") this.#relay.kept(effect, outcome === true, now);
    else if (type === "fence") this.#relay.fenced(effect, typeof outcome === "bigint" ? outcome : undefined, now);
    else if (type === "agree") this.#relay.agreed(effect, outcome === true, now);
  }

  #step(lock: string, step: RoundStep): bigint | boolean | undefined {
    try {
      return this.#host.keys.ask(lock, { type: "round", step });
    } catch (error) {
      if (!(error instanceof FenceExhaustedError)) throw error;
      this.#host.log("warn", "round_step_failed", { step: step.do, error: String(error) });
      return undefined;
    }
  }
}
