import type { Config } from "../config/config.ts";
import { SmallMap } from "../engine/small-map.ts";
import type { Effect, SessionRecords } from "./effects.ts";
import type { KeyCall, KeyOutcome, OutcomeOf } from "./key-calls.ts";
import { Timers } from "./timers.ts";

export type SessionConfig = Pick<
  Config,
  "authToken" | "adminToken" | "autoRelease" | "defaultLeaseSeconds" | "draining" | "httpSessionIdleMs"
> &
  Pick<Config, "readTimeoutMs" | "resumeGraceMs" | "serverId" | "relay"> & {
    /** How clients know the version of this service. */
    readonly version: string;
  };

/** How one call to a key goes on. */
export interface Continuation<Type extends KeyCall["type"]> {
  answered(outcome: OutcomeOf<Type>): void;
  failed(error: string): void;
  /**
   * Whether the call may be made again when nothing is known of its outcome: false if that is no longer needed, or if making it
   * twice would do harm. By default it may.
   */
  mayRepeat?(): boolean;
}

/** What a session is made from. */
export interface SessionOrigin
  extends Pick<SessionContext, "session" | "config" | "records" | "random" | "isStorageWell"> {
  readonly now: number;
  /** The host keeps the connection of a request until it is answered: its client never has to poll. */
  readonly holdsConnections?: true;
}

/** What the parts of one session share: the time of the command that runs, and what it makes the host do. */
export class SessionContext {
  readonly session: string;
  readonly config: SessionConfig;
  readonly records: SessionRecords;
  /** 32 unpredictable hex digits. */
  readonly random: () => string;
  readonly timers = new Timers();
  now: number;
  /** False while the host cannot store: requests that would store something new are refused. */
  readonly isStorageWell: () => boolean;
  #effects: Effect[] = [];
  readonly #calls = new SmallMap<number, Continuation<KeyCall["type"]>>();
  #lastCall = 0;

  constructor({ session, config, records, random, isStorageWell, now }: SessionOrigin) {
    this.session = session;
    this.config = config;
    this.records = records;
    this.random = random;
    this.isStorageWell = isStorageWell;
    this.now = now;
  }

  emit(effect: Effect): void {
    this.#effects.push(effect);
  }

  takeEffects(): readonly Effect[] {
    const effects = this.#effects;
    if (effects.length > 0) this.#effects = [];
    return effects;
  }

  callKey<Type extends KeyCall["type"]>(
    key: string,
    ask: Extract<KeyCall, { readonly type: Type }>,
    continuation: Continuation<Type>,
  ): void {
    this.#lastCall += 1;
    const call = this.#lastCall;
    this.#calls.set(call, continuation as Continuation<KeyCall["type"]>);
    this.emit({ type: "callKey", call, key, ask });
  }

  /** Number of calls to keys in flight. */
  get callsInFlight(): number {
    return this.#calls.size;
  }

  /** Whether a call that has failed, and may have been carried out, may be made again. */
  mayRepeatCall(call: number): boolean {
    const pending = this.#calls.get(call);
    return pending !== undefined && pending.mayRepeat?.() !== false;
  }

  keyAnswered(call: number, outcome: KeyOutcome): void {
    this.#take(call)?.answered(outcome);
  }

  keyFailed(call: number, error: string): void {
    this.#take(call)?.failed(error);
  }

  #take(call: number): Continuation<KeyCall["type"]> | undefined {
    const pending = this.#calls.get(call);
    this.#calls.delete(call);
    return pending;
  }
}
