import { type CurrentHold, fenceFromHex, type Sessionless } from "../../core/engine/index.ts";
import {
  cleanText,
  formatLockText,
  isNonce,
  MAX_PID,
  readFields,
  readNumber,
} from "../../core/protocols/lockfile/index.ts";
import { protocolOf } from "../../core/session-names.ts";
import type { AppContext } from "../request/context.ts";
import type { Parsed } from "../request/fields.ts";
import { etagOf, leaseBegan } from "../sessionless/replies.ts";

export const FILE = "file";
export const MAX_BODY_BYTES = 16_384;

/** What the body of a PUT says about its sender. */
export interface Sender {
  readonly pid: number;
  readonly tag: string | undefined;
  readonly nonce: string | undefined;
}

/** Reads a lock text in which nothing is required; the service uses its own clock. */
export function senderIn(bytes: Uint8Array): Parsed<Sender> {
  const fields = readFields(bytes, MAX_BODY_BYTES);
  if (!fields) return { ok: false, detail: `body must be UTF-8 text of at most ${MAX_BODY_BYTES} bytes` };
  const [pid, tag, nonce] = ["pid", "tag", "nonce"].map((name) => fields.get(name));
  const number = pid === undefined ? 0 : readNumber(pid, MAX_PID);
  if (number === undefined) return { ok: false, detail: `pid must be a whole number from 0 to ${MAX_PID}` };
  const sender = {
    pid: number,
    tag: tag === undefined ? undefined : cleanText(tag),
    nonce: nonce !== undefined && isNonce(nonce) ? nonce : undefined,
  };
  return { ok: true, value: sender };
}

/** What is stored about the sender while it holds or waits. */
export function holderFrom({ pid, tag, nonce }: Sender): Sessionless & { readonly kind: typeof FILE } {
  return {
    kind: FILE,
    note: String(pid),
    ...(tag !== undefined && { tag }),
    ...(nonce !== undefined && { mark: nonce }),
  };
}

/** The holder as a lock file would show it. For a holder of another protocol, only the protocol is named. */
export function lockTextOf(hold: CurrentHold): string {
  const { session, request, fence, expiresAt, sessionless } = hold;
  const own = sessionless?.kind === FILE ? sessionless : undefined;
  const tag = own ? own.tag : `holdfast:${protocolOf(session, request)}`;
  return formatLockText({
    pid: Number(own?.note ?? 0),
    timestamp: Math.floor(leaseBegan(hold) / 1000),
    ...(tag !== undefined && { tag }),
    ...(own?.mark !== undefined && { nonce: own.mark }),
    fence: fenceFromHex(fence),
    expires: Math.ceil(expiresAt / 1000),
  });
}

/** A reply that carries the holder's lock text. */
export function textReply(
  context: AppContext,
  hold: CurrentHold,
  status: 200 | 201 | 412,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const { expiresAt, leaseSeconds, at } = hold;
  const remaining = Math.ceil((expiresAt - at) / 1000);
  return context.body(lockTextOf(hold), status, {
    "Content-Type": "text/plain; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    ETag: etagOf(hold),
    // A session may have renewed for longer than its original lease.
    "X-Stale-Timeout": String(Math.max(leaseSeconds, remaining)),
    "X-Expires-In": String(remaining),
    ...headers,
  });
}
