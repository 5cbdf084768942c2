import type { Rights } from "../rights.ts";

/** `handshake`: the first line must be `AUTH`. */
export type GodistlockPhase = "handshake" | "open";

/** One or more requests of a client for one lock that wait together, at one place of the queue. */
export interface ParkedRequest {
  readonly id: string;
  readonly lock: string;
  readonly kind: "on" | "try";
  /** Of all requests that have joined, in the order sent. */
  readonly nonces: readonly string[];
  /** The lease that the key was asked for. */
  readonly askedMs: number;
  /** The lease that the client wants by now. */
  readonly timeoutMs: number;
}

/** The shape of `GodistlockState`. State of another version counts as a lost socket. */
export const GODISTLOCK_STATE_VERSION = 1;

/** Everything that must outlive hibernation. What is being carried out keeps the object awake. */
export interface GodistlockState {
  readonly protocol: "godistlock";
  readonly version: typeof GODISTLOCK_STATE_VERSION;
  readonly phase: GodistlockPhase;
  readonly rights: Rights;
  readonly openedAt: number;
  readonly partial: Uint8Array;
  readonly midLineSince: number;
  /** Tokens by lock. */
  readonly holds: readonly (readonly [lock: string, token: string])[];
  readonly parked: readonly ParkedRequest[];
}
