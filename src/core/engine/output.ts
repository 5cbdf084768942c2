import type { RoundRefusal } from "./commands.ts";
import { Changes } from "./storage.ts";

/**
 * A message for a waiting session. `granted`: pick the hold up. `promoted`: an enqueued waiter became a hold. `timeout`
 * and `lease_expired` are final. A request that needs a quorum is told `timeout` when it was refused, and why.
 */
export type NoticeKind = "granted" | "promoted" | "timeout" | "lease_expired";

/**
 * A session's answer to a notice. `taken`: the client has been told. `noted`: the session knows, its client has not
 * asked. `gone`: the client has left, and was not told. `later`: the client is away, notify again.
 */
export type NoticeAnswer = "taken" | "noted" | "gone" | "later";

export type LossReason = "expired" | "released" | "stolen";

/** A grant that a session may hand to its client without asking the key again. `at`: when it was made. */
export interface Offer {
  readonly token: string;
  readonly leaseSeconds: number;
  readonly at: number;
  /** Another client wants the key. Only for a holder that asked to be told. */
  readonly isWanted?: true;
}

export interface NoticeEvent {
  readonly type: "notice";
  readonly session: string;
  readonly request: string;
  readonly kind: NoticeKind;
  /** The request is a `wait` on an enqueued waiter: another `wait` may replace it. */
  readonly hasPlace?: true;
  readonly refusal?: RoundRefusal;
  readonly offer?: Offer;
  /** The grant was offered before: its client may have the token. */
  readonly mayBeTold?: true;
}

export type KeyEvent =
  | NoticeEvent
  | { readonly type: "lost"; readonly session: string; readonly token: string; readonly reason: LossReason }
  /** Another client wants the key. Only for a holder that asked to be told. */
  | { readonly type: "wanted"; readonly session: string; readonly token: string }
  | RoundEvent;

/**
 * For the relay of this deployment. `round`: ask the others whether this request may have the lock. `round_over`: the
 * hold, or the request before it became one, has ended. `mark` is the slot's fence at this time, 16 hex digits.
 */
export type RoundEvent = { readonly session: string; readonly request: string; readonly mark: string } & (
  | { readonly type: "round"; readonly leaseMs: number }
  | { readonly type: "round_over" }
);

/** Why a slot became free, for statistics. `gone`: the request was withdrawn, or its client never picked the hold up. */
export type EndReason = "released" | "expired" | "disconnect" | "gone" | "stolen";

/**
 * What happened at a key, for statistics and history only. A grant counts once, when its token is handed to the client
 * or offered to it (`at`); `waitMs` is the time since the request reached the key. Every slot that becomes free counts as ended;
 * `holdMs`, from hand-over to end, is undefined if the token was neither handed over nor offered. So each grant has at most one end,
 * with the same fence.
 */
export type Observation =
  | {
      readonly type: "granted";
      readonly how: "immediate" | "queued";
      readonly session: string;
      readonly fence: string;
      /** The start of the tag, if the holder has no session. */
      readonly tag?: string;
      readonly at: number;
      readonly waitMs: number;
    }
  | { readonly type: "ended"; readonly fence: string; readonly reason: EndReason; readonly holdMs: number | undefined }
  | { readonly type: "renewed"; readonly result: "ok" | "error" }
  /** A client is told that its wait timed out. */
  | { readonly type: "timeout" }
  /** A waiter got a slot whose lease had ended `ms` earlier. */
  | { readonly type: "handed_over_late"; readonly ms: number }
  | { readonly type: "notice_repeated" };

const NO_CHANGES = new Changes();
const NONE: readonly never[] = [];

/**
 * What commands have produced since the host last took it: rows to write, messages to send, things to count. There may be
 * many idle keys in memory, so nothing is allocated for it before it is needed.
 */
export class Output {
  #changes: Changes | undefined;
  #events: KeyEvent[] | undefined;
  #observations: Observation[] | undefined;

  get changes(): Changes {
    this.#changes ??= new Changes();
    return this.#changes;
  }

  get events(): KeyEvent[] {
    this.#events ??= [];
    return this.#events;
  }

  get observations(): Observation[] {
    this.#observations ??= [];
    return this.#observations;
  }

  get hasChanges(): boolean {
    return this.#changes?.isEmpty === false;
  }

  takeChanges(): Changes {
    const changes = this.#changes ?? NO_CHANGES;
    this.#changes = undefined;
    return changes;
  }

  takeEvents(): readonly KeyEvent[] {
    const events = this.#events ?? NONE;
    this.#events = undefined;
    return events;
  }

  takeObservations(): readonly Observation[] {
    const observations = this.#observations ?? NONE;
    this.#observations = undefined;
    return observations;
  }
}
