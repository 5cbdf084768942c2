/** One holder of a key, as others may see it. */
export interface Holder {
  /** Names the session that holds it. */
  readonly owner_conn_id: number;
  /** How it came by its place, if not in the name of a session. */
  readonly protocol?: "file" | "terraform";
  /** What it calls itself; absent if it does not. */
  readonly label?: string;
  /** 16 hex digits; never the token. */
  readonly fence: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** Seconds since then. */
  readonly held_s: number;
  /** The length of the lease: that of the grant, or what is left of a longer one set since. */
  readonly lease_s: number;
  /** Seconds until it ends, unless it is renewed. */
  readonly lease_expires_in_s: number;
}

/** One place in the queue of a key. */
export interface Waiter {
  /** 1 is next. */
  readonly position: number;
  /** Names the session that waits. */
  readonly owner_conn_id: number;
  /** How it came by its place, if not in the name of a session. */
  readonly protocol?: "file" | "terraform";
  /** What it calls itself; absent if it does not. */
  readonly label?: string;
  /** RFC 3339, UTC. */
  readonly since: string;
  /** Seconds since then. */
  readonly waited_s: number;
  /** Absent for a place that nobody waits on yet. */
  readonly timeout_in_s?: number;
}

/** A key as it stands; the same document as `GET /v1/keys/{key}`. */
export interface KeyReport {
  /** The key. */
  readonly key: string;
  /** A lock has one slot. */
  readonly kind: "lock" | "semaphore";
  /** How many may hold it at a time. */
  readonly limit: number;
  /** How many hold it. */
  readonly holders: number;
  /** How many wait for it. */
  readonly waiters: number;
  /** How long nobody has held or wanted it; absent while somebody does. */
  readonly idle_s?: number;
  /** Who holds it: the first hundred. */
  readonly held_by: readonly Holder[];
  /** Who waits for it, the next one first: the first hundred. */
  readonly queue: readonly Waiter[];
}

/** All keys at a glance; the same document as `GET /v1/stats`. */
export interface Stats {
  /** Sessions that are there, of all protocols. */
  readonly connections: number;
  /** Keys of one slot that are held or waited for. */
  readonly locks: readonly {
    readonly key: string;
    /** 0 while nobody holds it. */
    readonly owner_conn_id: number;
    readonly lease_expires_in_s: number;
    readonly waiters: number;
  }[];
  /** Keys of several slots that are held or waited for. */
  readonly semaphores: readonly {
    readonly key: string;
    readonly limit: number;
    readonly holders: number;
    readonly waiters: number;
  }[];
  /** Keys of one slot that nobody holds or wants, and for how long. */
  readonly idle_locks: readonly { readonly key: string; readonly idle_s: number }[];
  /** Keys of several slots that nobody holds or wants, and for how long. */
  readonly idle_semaphores: readonly { readonly key: string; readonly idle_s: number }[];
  /** Keys that exist but cannot be read, the first hundred; absent if there are none. */
  readonly unreachable?: readonly string[];
  /** How many there are of those. */
  readonly unreachable_count?: number;
  /** There are more keys than are shown. */
  readonly truncated?: true;
}
