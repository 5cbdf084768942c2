/** A holder of a key. */
export interface Holder {
  /** The session's number. */
  readonly owner_conn_id: number;
  /** For holders and waiters without a session. */
  readonly protocol?: "file" | "terraform" | "worker";
  /** The client's label, if it has one. */
  readonly label?: string;
  /** 16 hex digits; never the token. */
  readonly fence: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** Seconds since then. */
  readonly held_s: number;
  /** The length of the lease: that of the grant, or what was left of a longer one that was set later. */
  readonly lease_s: number;
  /** Seconds until the lease ends, unless it is renewed. */
  readonly lease_expires_in_s: number;
}

/** A waiter in the queue of a key. */
export interface Waiter {
  /** 1 is next. */
  readonly position: number;
  /** The session's number. */
  readonly owner_conn_id: number;
  /** For holders and waiters without a session. */
  readonly protocol?: "file" | "terraform" | "worker";
  /** The client's label, if it has one. */
  readonly label?: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** Seconds since then. */
  readonly waited_s: number;
  /** Absent for a place that was enqueued and is not waited for yet. */
  readonly timeout_in_s?: number;
}

/** The state of a key; the same document as `GET /v1/keys/{key}`. */
export interface KeyReport {
  /** The key. */
  readonly key: string;
  /** A lock has limit 1. */
  readonly kind: "lock" | "semaphore";
  /** How many may hold it at a time. */
  readonly limit: number;
  /** How many hold it. */
  readonly holders: number;
  /** How many wait for it. */
  readonly waiters: number;
  /** Seconds since the last use; absent while there are holders or waiters. */
  readonly idle_s?: number;
  /** The first hundred holders. */
  readonly held_by: readonly Holder[];
  /** The first hundred waiters, in order. */
  readonly queue: readonly Waiter[];
}

/** All keys; the same document as `GET /v1/stats`. */
export interface Stats {
  /** Open sessions, of all protocols. */
  readonly connections: number;
  /** Locks with a holder or waiters. */
  readonly locks: readonly {
    readonly key: string;
    /** 0 while it has no holder. */
    readonly owner_conn_id: number;
    readonly lease_expires_in_s: number;
    readonly waiters: number;
  }[];
  /** Semaphores with holders or waiters. */
  readonly semaphores: readonly {
    readonly key: string;
    readonly limit: number;
    readonly holders: number;
    readonly waiters: number;
  }[];
  /** Locks without holder and waiters. */
  readonly idle_locks: readonly { readonly key: string; readonly idle_s: number }[];
  /** Semaphores without holders and waiters. */
  readonly idle_semaphores: readonly { readonly key: string; readonly idle_s: number }[];
  /** The first hundred keys that exist but cannot be read; absent if there are none. */
  readonly unreachable?: readonly string[];
  /** The number of all keys that cannot be read. */
  readonly unreachable_count?: number;
  /** There are more keys than are shown. */
  readonly truncated?: true;
}
