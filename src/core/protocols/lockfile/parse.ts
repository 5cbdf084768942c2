import { isNonce, MAX_PID, readFields, readNumber } from "./fields.ts";

/** The content of a lock text. Fields that are absent, or invalid and not required, are left out. */
export interface LockFields {
  /** 0 … 4,294,967,295. */
  readonly pid: number;
  /** When the lock was acquired or last refreshed, in Unix seconds. */
  readonly timestamp: number;
  /** Free text for people. Empty text is not the same as none. */
  readonly tag?: string;
  readonly host?: string;
  /** 1 to 64 hex digits that distinguish two acquisitions. */
  readonly nonce?: string;
  /** Only in texts of the HTTP service: the fence of the grant. */
  readonly fence?: bigint;
  /** Only in texts of the HTTP service: when the lease ends, in Unix seconds. */
  readonly expires?: number;
}

export type LockText = ({ readonly kind: "well-formed" } & LockFields) | { readonly kind: "malformed" };

/** Parses the content of a lock file. Never throws: what cannot be parsed is malformed. */
export function parseLockText(bytes: Uint8Array): LockText {
  const fields = readFields(bytes);
  const pid = readNumber(fields?.get("pid"), MAX_PID);
  const timestamp = readNumber(fields?.get("timestamp"), Number.MAX_SAFE_INTEGER);
  if (!fields || pid === undefined || timestamp === undefined) return { kind: "malformed" };
  const [tag, host, nonce, fence] = ["tag", "host", "nonce", "fence"].map((key) => fields.get(key));
  const expires = readNumber(fields.get("expires"), Number.MAX_SAFE_INTEGER);
  return {
    kind: "well-formed",
    pid,
    timestamp,
    ...(tag !== undefined && { tag }),
    ...(host !== undefined && { host }),
    ...(nonce !== undefined && isNonce(nonce) && { nonce }),
    ...(fence !== undefined && /^[0-9]{1,20}$/.test(fence) && { fence: BigInt(fence) }),
    ...(expires !== undefined && { expires }),
  };
}
