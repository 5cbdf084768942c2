import { hostname } from "node:os";
import { cleanText, type LockText } from "../core/protocols/lockfile/index.ts";

/** The holder of a lock, as far as its file tells. Everything but the age is null if the file is malformed. */
export interface Holder {
  readonly pid: number | null;
  /** When the lock was acquired or last refreshed, in Unix seconds. */
  readonly timestamp: number | null;
  readonly tag: string | null;
  readonly host: string | null;
  readonly nonce: string | null;
  /** Seconds since the timestamp or, for a malformed file, since its last change. Negative if that is in the future. */
  readonly age: number;
}

/** The owner of a lock file: one acquisition, or a process of this host. */
export type Owner = { readonly kind: "nonce"; readonly nonce: string } | { readonly kind: "pid"; readonly pid: number };

export const nowSeconds = () => Math.floor(Date.now() / 1000);
export const hostName = () => cleanText(hostname());

/** A lock file as seen. */
export interface SeenLock {
  readonly text: LockText;
  readonly mtimeNs: bigint;
}

export function ageOf({ text, mtimeNs }: SeenLock): number {
  const since = text.kind === "well-formed" ? text.timestamp : Number(mtimeNs / 1_000_000_000n);
  return nowSeconds() - since;
}

/** Whether the lock may be taken over. Does not depend on whether its process still runs. */
export function isStale(lock: SeenLock, staleSeconds: number): boolean {
  return staleSeconds > 0 && ageOf(lock) > staleSeconds;
}

export function isOwnedBy({ text }: SeenLock, owner: Owner): boolean {
  if (text.kind === "malformed") return false;
  if (owner.kind === "nonce") return text.nonce === owner.nonce;
  return text.pid === owner.pid && (text.host === undefined || text.host === hostName());
}

export function holderOf(lock: SeenLock): Holder {
  const { text } = lock;
  const age = ageOf(lock);
  if (text.kind === "malformed") return { pid: null, timestamp: null, tag: null, host: null, nonce: null, age };
  const { pid, timestamp, tag = null, host = null, nonce = null } = text;
  return { pid, timestamp, tag, host, nonce, age };
}
