/** What a key is told and what it answers. Times are milliseconds of the key's own clock unless a name says otherwise. */

/** The circumstances of one command: its time, its randomness and the limits in force. */
export interface Moment {
  readonly now: number;
  /** 16 hex digits that nobody can foresee. */
  readonly salt: () => string;
  readonly fenceFloor: bigint;
  /** 0 = no cap. */
  readonly maxWaiters: number;
  readonly gcMaxIdleMs: number;
}

export interface AcquireCommand {
  readonly session: string;
  readonly request: string;
  readonly limit: number;
  readonly leaseSeconds: number;
  /** 0 = do not wait. */
  readonly waitMs: number;
  /** False when the client could no longer hear an answer that takes time. */
  readonly mayWait: boolean;
  /** Every holder is removed first, and nobody in the queue comes before this request. */
  readonly steals?: true;
  /** The request is that of a holder without a session; `session` then names nobody but this holder. */
  readonly sessionless?: Sessionless;
}

/**
 * What a holder without a session says of itself. It is kept with its place and its hold. Nobody is told when such a hold
 * ends, and nobody's leaving ends it: it ends by `remove`, by its lease, or by a forced release.
 */
export interface Sessionless {
  /** The protocol of the holder. Only requests of the same kind may refresh or remove the hold. */
  readonly kind: string;
  /** Names the claim. A claim with the kind and mark of the holder is the same claim again. */
  readonly mark?: string;
  /** For people. */
  readonly tag?: string;
  /** Kept as given, never read by the engine. */
  readonly note: string;
}

export type EnqueueCommand = Omit<AcquireCommand, "waitMs" | "mayWait" | "steals" | "sessionless">;

export interface WaitCommand extends Omit<AcquireCommand, "limit" | "leaseSeconds" | "steals" | "sessionless"> {
  /** The session knows that no earlier `wait` of its own on this key is still in progress: this one takes its place. */
  readonly takesOver?: true;
}

export interface Granted {
  readonly status: "granted";
  readonly token: string;
  readonly leaseSeconds: number;
}

/** The client's place is kept; a notice follows when there is something to say. */
export interface Queued {
  readonly status: "queued";
}

/** It would have to wait, but must not. Nothing has changed. */
export interface WouldWait {
  readonly status: "would_wait";
}

export type Refusal<Status extends string> = { readonly status: Status };

export type AcquireOutcome =
  | Granted
  | Queued
  | WouldWait
  | Refusal<"timeout" | "limit_mismatch" | "max_locks" | "max_waiters" | "fence_persistence">;

export type EnqueueOutcome =
  | Granted
  | Queued
  | Refusal<"already_enqueued" | "limit_mismatch" | "max_locks" | "max_waiters" | "fence_persistence">;

export type WaitOutcome = Granted | Queued | WouldWait | Refusal<"timeout" | "not_enqueued" | "lease_expired">;

/** What became of a request that was told `queued`; `unknown` when the key has never heard of it, or has finished it. */
export type PickUpOutcome = Granted | Queued | Refusal<"timeout" | "lease_expired" | "unknown">;

export type RenewOutcome = { readonly status: "renewed"; readonly leaseSeconds: number } | Refusal<"not_held">;
export type ReleaseOutcome = Refusal<"released" | "not_held">;

/** Whose hold was taken away, and how long it would have lasted. */
export type StealOutcome =
  | {
      readonly status: "stolen";
      readonly session: string;
      readonly since: number;
      readonly expiresAt: number;
      /** Of a holder without a session that has one. */
      readonly tag?: string;
    }
  | Refusal<"not_held">;

/**
 * News for a waiting session. `granted` must be picked up, `promoted` (an enqueued place became a hold) be noted;
 * `timeout` and `lease_expired` are final and only have to be heard.
 */
export type NoticeKind = "granted" | "promoted" | "timeout" | "lease_expired";

export type LossReason = "expired" | "released" | "stolen";

export type KeyEvent =
  | {
      readonly type: "notice";
      readonly session: string;
      readonly request: string;
      readonly kind: NoticeKind;
      /** The request is a `wait` at a place that was taken before: another `wait` may come for it. */
      readonly hasPlace?: true;
    }
  | { readonly type: "lost"; readonly session: string; readonly token: string; readonly reason: LossReason };

export interface HolderView {
  readonly session: string;
  /** When the token was handed over; before that, when the slot was given to the place in the queue. */
  readonly since: number;
  /** The lease that came with the grant; a renewal may have set a longer or a shorter one. */
  readonly leaseSeconds: number;
  readonly expiresAt: number;
  /** The token's first 16 hex digits: enough to name the hold, not to release it. */
  readonly fence: string;
  /** The beginning of the tag of a holder without a session. */
  readonly tag?: string;
}

/** A hold that is in its client's hands. */
export interface StandingHold {
  readonly session: string;
  /** As in `HolderView`. */
  readonly tag?: string;
  readonly fence: string;
  /** When the token was handed over. */
  readonly since: number;
  /** It never stood in the queue. */
  readonly isImmediate: boolean;
}

export interface WaiterView {
  readonly session: string;
  readonly joinedAt: number;
  /** Undefined for a place that was enqueued and that nobody waits on yet. */
  readonly deadline: number | undefined;
  /** As in `HolderView`. */
  readonly tag?: string;
}

/** A key as others may see it. Tokens are not part of it. */
export interface KeyView {
  readonly limit: number;
  readonly holderCount: number;
  /** The first of them, in the order of their grants. */
  readonly holders: readonly HolderView[];
  readonly waiters: number;
  /** The first of them, in the order of the queue; empty unless asked for. */
  readonly queue: readonly WaiterView[];
  readonly lastActivity: number;
}
