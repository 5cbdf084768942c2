/** How many times a session, or all claims at a key, may wait in queues. */
export interface SessionWaiters {
  readonly session: string;
  readonly count: number;
}

/** A client of any kind. */
export interface SimulatedClient {
  readonly name: string;
  /** Does something. */
  act(): void;
  /** Gives back everything, waits for all answers, and leaves. */
  leave(): void;
  /** Goes without a word, for good. */
  vanish(): void;
  /** What it still waits for. */
  readonly unanswered: readonly string[];
  /** Where it may wait in queues. */
  readonly waiters: readonly SessionWaiters[];
}
