/** What a key is asked and what it replies. Times are milliseconds on the key's own clock unless the name says otherwise. */

/** The time, randomness and limits that one command runs with. */
export interface CommandContext {
  readonly now: number;
  /** 16 unpredictable hex digits. */
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
  /** False when the client can no longer receive a delayed reply. */
  readonly mayWait: boolean;
  /** Every holder is removed first, and this request goes ahead of the queue. */
  readonly steals?: true;
  /** The holder wants to be told when another client wants the key. */
  readonly asksWanted?: true;
  /** Set when the holder has no session; `session` then identifies this holder alone. */
  readonly sessionless?: Sessionless;
  /** Set if other deployments have to agree to the grant. Such a request of a lock is always answered `queued` first. */
  readonly quorum?: Quorum;
  /** The session wants to hear at once when the lease ends. */
  readonly isWatched?: true;
}

/** What follows when other deployments do not agree: the request has failed, or asks again until they do. */
export type Quorum = "once" | "until_agreed";

/**
 * How a holder without a session describes itself; stored with its waiter and its hold. The holder is not notified when
 * the hold ends, and no `leave` ends it: it ends by `remove`, by its lease, or by a forced release.
 */
export interface Sessionless {
  /** The holder's protocol. Only requests of the same kind may refresh or remove the hold. */
  readonly kind: string;
  /** Names the claim. A claim with the holder's kind and mark is the same claim again. */
  readonly mark?: string;
  /** Shown to people. */
  readonly tag?: string;
  /** Stored as given; the engine does not read it. */
  readonly note: string;
}

/** What a waiter and a hold keep of their request. */
export interface LockRequest extends Pick<AcquireCommand, "session" | "request" | "leaseSeconds"> {
  readonly sessionless?: Sessionless | undefined;
  readonly quorum?: Quorum | undefined;
  readonly asksWanted?: true | undefined;
  readonly isWatched?: boolean | undefined;
}

type OfAcquireOnly = "steals" | "sessionless" | "quorum" | "asksWanted";

export type EnqueueCommand = Omit<AcquireCommand, "waitMs" | "mayWait" | OfAcquireOnly>;

export interface WaitCommand extends Omit<AcquireCommand, "limit" | "leaseSeconds" | OfAcquireOnly> {
  /** The session knows that its earlier `wait` on this key was cut off: this one replaces it. */
  readonly takesOver?: true;
}

export interface CancelOptions {
  /** The session of a `wait` that its client cancels: its place goes, even if the `wait` never arrived. */
  readonly placeOf?: string;
  /** The client may not know that its `wait` is withdrawn: a hold that it knew from `enqueue` stays. */
  readonly sparesKnown?: true;
  /** The client is still there and may ask again: the place of a `wait` stays, as if the `wait` had not been made. */
  readonly sparesPlace?: true;
}

export interface Granted {
  readonly status: "granted";
  readonly token: string;
  readonly leaseSeconds: number;
  /** Another client wants the key. Only for a holder that asked to be told. */
  readonly isWanted?: true;
}

/** The request is in the queue; a notice follows. */
export interface Queued {
  readonly status: "queued";
}

/** It would have to wait, but may not. Nothing has changed. */
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

/** The state of a request that was told `queued`; `unknown` if the key never had it or is done with it. */
export type PickUpOutcome = Granted | Queued | Refusal<"timeout" | "lease_expired" | "unknown">;

/**
 * How a request that asks other deployments once has failed. `refused`: a majority answered, and the lock is taken;
 * `fence` is the holder's, 0 if it is not known. `no_quorum`: too few answered.
 */
export interface RoundRefusal {
  readonly status: "refused" | "no_quorum";
  readonly fence: bigint;
}

export type RenewOutcome =
  | { readonly status: "renewed"; readonly leaseSeconds: number; readonly isWanted?: true }
  | Refusal<"not_held">;
export type ReleaseOutcome = Refusal<"released" | "not_held">;

/** The hold that was taken away, and when it would have expired. */
export type StealOutcome =
  | {
      readonly status: "stolen";
      readonly session: string;
      readonly since: number;
      readonly expiresAt: number;
      /** Of a holder without a session, if it has one. */
      readonly tag?: string;
    }
  | Refusal<"not_held">;
