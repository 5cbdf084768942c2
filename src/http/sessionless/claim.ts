import { RemoteKeys, type SessionlessKeys } from "../../cloudflare/calls/remote-keys.ts";
import { StorageHealth } from "../../cloudflare/storage-probe.ts";
import type { ClaimCommand, ClaimOutcome } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { newSessionlessOwner, type SessionlessProtocol } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import { endOfPoll } from "../reply/poll.ts";
import type { AppContext } from "../request/context.ts";

export interface Wanted extends Pick<ClaimCommand, "leaseSeconds"> {
  readonly waitSeconds: number;
  readonly sessionless: ClaimCommand["sessionless"] & { readonly kind: SessionlessProtocol };
}

/** The key's outcomes, and those decided before or after asking it. */
export type ClaimEnd = ClaimOutcome | { readonly status: "draining" | "client_canceled" | "unavailable" };

/** Pauses before asking again if the key was lost while its client waited. */
const RETRY_PAUSES_MS = [50, 200, 800, 1_600];
/** Clients hardly ever hang up sooner than this, and checking for it costs a millisecond. */
const QUICK_MS = 5;
const WITHDRAWAL_PAUSES_MS = [100, 400, 1_600, 5_000];

/**
 * Takes the lock for a holder without a session, waiting for it if asked to. If the outcome of a claim stays unknown or
 * its client has hung up, it is withdrawn.
 */
export async function claim(context: AppContext, key: string, wanted: Wanted): Promise<ClaimEnd> {
  if (context.get("config").draining) return { status: "draining" };
  if (!(await new StorageHealth(context.env).mayStore())) return { status: "unavailable" };
  const claiming = claimUntilDecided(context, key, wanted);
  // Otherwise the Worker would end when the client leaves, and the claim could not be withdrawn.
  context.executionCtx.waitUntil(claiming.catch(() => {}));
  return claiming;
}

async function claimUntilDecided(context: AppContext, key: string, wanted: Wanted): Promise<ClaimEnd> {
  const end = await claimOnce(context, key, wanted);
  // The wait and the lease in its way ended at the same time: the lock is free, so try once more.
  const isFreeByNow = end.status === "timeout" && end.hold === undefined;
  return isFreeByNow ? claimOnce(context, key, { ...wanted, waitSeconds: 0 }) : end;
}

async function claimOnce(context: AppContext, key: string, wanted: Wanted): Promise<ClaimEnd> {
  const { waitSeconds, leaseSeconds, sessionless } = wanted;
  const { signal } = context.req.raw;
  const keys = new RemoteKeys(context.env);
  const askedAt = Date.now();
  const session = newSessionlessOwner(sessionless.kind);
  const command = { session, request: randomHex(12), leaseSeconds, waitMs: waitSeconds * 1000, sessionless };
  try {
    const end = waitSeconds > 0 ? await wait(keys, key, command, signal) : await keys.claim(key, command);
    // workerd reads from connections only when nothing else is left to do (2026-11): this lets it report a hang-up.
    if (Date.now() - askedAt >= QUICK_MS) await scheduler.wait(0);
    if (!signal.aborted) return end;
  } catch (error) {
    logged("key_unreachable")(error);
    context.executionCtx.waitUntil(withdraw(keys, key, command.request));
    return { status: "unavailable" };
  }
  context.executionCtx.waitUntil(withdraw(keys, key, command.request));
  return { status: "client_canceled" };
}

/**
 * Waits at the key, on a socket to its object. If the socket is lost, the same claim is made again: its place is
 * stored, so it keeps its position.
 */
async function wait(keys: SessionlessKeys, key: string, command: ClaimCommand, signal: AbortSignal): Promise<ClaimEnd> {
  const deadline = Date.now() + command.waitMs;
  for (const pauseMs of [...RETRY_PAUSES_MS, undefined]) {
    const socket = await keys.listen(key, command.request);
    const ending = endOfPoll<ClaimOutcome>(socket, signal);
    socket.send(JSON.stringify({ ...command, waitMs: Math.max(1, deadline - Date.now()) } satisfies ClaimCommand));
    const end = await ending;
    if (end.type === "answered") return end.outcome;
    if (end.type !== "lost" || signal.aborted) return { status: "client_canceled" };
    if (pauseMs !== undefined) await scheduler.wait(pauseMs);
  }
  throw new Error("the key was lost again and again");
}

/** Withdraws a claim and whatever it was granted, retrying if its key cannot be reached. */
async function withdraw(keys: SessionlessKeys, key: string, request: string): Promise<void> {
  for (const pauseMs of [...WITHDRAWAL_PAUSES_MS, undefined]) {
    try {
      return await keys.cancel(key, request);
    } catch (error) {
      if (pauseMs === undefined) logged("withdrawal_failed")(error);
      else await scheduler.wait(pauseMs);
    }
  }
}
