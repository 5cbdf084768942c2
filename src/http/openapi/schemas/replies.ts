import { z } from "@hono/zod-openapi";
import { hexDigits, labelText, wholeNumber } from "./rules.ts";

const fence = hexDigits(16).openapi({ description: "Fence of the grant; rises with every grant of the key." });
const token = hexDigits(32).openapi({
  description:
    "Proof of the grant: its fence in the first 16 digits, then 16 random ones. Tokens of a key compare as text.",
});
const leaseSeconds = wholeNumber(1, Number.MAX_SAFE_INTEGER).openapi({
  description: "The lease just set, in seconds.",
});
const count = () => wholeNumber(0, Number.MAX_SAFE_INTEGER);
const duration = (description: string) => z.number().min(0).openapi({ description });
const key = z.string().min(1);
const owner = wholeNumber(1, Number.MAX_SAFE_INTEGER).openapi({
  description: "Number of the session, or of the holder without one; not a secret.",
});
const label = labelText().optional().openapi({
  description:
    "The name the client gave itself; of a file its tag, of a Terraform lock whose it is, of a Worker `worker` if it gave none.",
});
const protocol = z
  .enum(["file", "terraform", "worker"])
  .optional()
  .openapi({ description: "How it came by its place, if not in the name of a session." });
const since = z.iso.datetime().openapi({ description: "When this began, by the key's clock." });

const granted = { token, lease_ttl_s: leaseSeconds };

export const acquireReply = z
  .discriminatedUnion("status", [
    z.object({ status: z.literal("ok"), ...granted }).openapi("AcquireOk"),
    z.object({ status: z.literal("timeout") }).openapi("AcquireTimeout"),
  ])
  .openapi("AcquireReply");

export const enqueueReply = z
  .discriminatedUnion("status", [
    z.object({ status: z.literal("acquired"), ...granted }).openapi("EnqueueAcquired"),
    z.object({ status: z.literal("queued") }).openapi("EnqueueQueued"),
  ])
  .openapi("EnqueueReply");

export const renewReply = z.object({ remaining_s: leaseSeconds }).openapi("RenewReply");

export const sessionReply = z
  .object({
    session_id: hexDigits(32).openapi({ description: "Whoever has it may use the session. Keep it secret." }),
    idle_timeout_s: count().openapi({ description: "Ping at half of this. 0: the session never dies of idleness." }),
  })
  .openapi("SessionReply");

export const healthReply = z.object({ status: z.literal("ok") }).openapi("HealthReply");
export const notReadyReply = z
  .object({ status: z.enum(["misconfigured", "draining", "unavailable"]) })
  .openapi("NotReadyReply");

export const heldBy = z
  .object({
    owner_conn_id: owner,
    protocol,
    label,
    fence,
    since,
    held_s: duration(
      "Seconds since the slot was picked up or, until then, since it was given to its place in the queue.",
    ),
    lease_s: duration("Seconds the lease lasts: that of the grant, or what is left of a longer one set since."),
    lease_expires_in_s: duration("Seconds until the lease ends."),
  })
  .openapi("Holder");

export const queued = z
  .object({
    position: wholeNumber(1, Number.MAX_SAFE_INTEGER).openapi({ description: "1 is served next." }),
    owner_conn_id: owner,
    protocol,
    label,
    since,
    waited_s: duration("Seconds since joining the queue."),
    timeout_in_s: duration("Seconds until the wait ends. Absent: no end is set.").optional(),
  })
  .openapi("Waiter");

/** Members that are part of stats only if asked for. */
const people = { held_by: z.array(heldBy).optional(), queue: z.array(queued).optional() };

const heldLock = z
  .object({
    key,
    owner_conn_id: count().openapi({ description: "Number of the holding session; 0 without a holder." }),
    lease_expires_in_s: duration("Seconds until the lease ends; 0 without a holder."),
    waiters: count(),
    ...people,
  })
  .openapi("LockStats");
const heldSemaphore = z
  .object({ key, limit: count(), holders: count(), waiters: count(), ...people })
  .openapi("SemaphoreStats");
const idleKey = z.object({ key, idle_s: duration("Seconds since the key was last used.") }).openapi("IdleKey");

export const statsReply = z
  .object({
    connections: count().openapi({ description: "Live sessions: HTTP, WebSocket and TCP." }),
    locks: z.array(heldLock),
    semaphores: z.array(heldSemaphore),
    idle_locks: z.array(idleKey),
    idle_semaphores: z.array(idleKey),
    unreachable: z
      .array(key)
      .max(100)
      .optional()
      .openapi({ description: "Keys that exist but cannot be read, the first hundred. Absent if there are none." }),
    unreachable_count: count().optional().openapi({ description: "How many keys cannot be read." }),
    behind: z.literal(true).optional().openapi({
      description: "Some sessions and keys may be missing: a part of the service has not told of them yet.",
    }),
    next_cursor: z.string().optional().openapi({ description: "There are more keys: ask again with this cursor." }),
    truncated: z
      .literal(true)
      .optional()
      .openapi({ description: "There are more keys than this document lists: ask with `limit` and `cursor`." }),
  })
  .openapi("Stats");

export const grant = z
  .object({
    fence,
    owner_conn_id: owner,
    protocol,
    label,
    granted_at: z.iso.datetime().openapi({ description: "When the token was handed over, by the key's clock." }),
    waited_s: duration(
      "Seconds from the request to the hand-over. Absent of a hold that was waited for and has outlived the key's memory.",
    ).optional(),
    held_s: duration("Seconds the slot was held. Absent while it is.").optional(),
    ended: z
      .enum(["released", "expired", "disconnect", "gone", "stolen"])
      .optional()
      .openapi({ description: "How it ended; `gone`: its client withdrew. Absent while the slot is held." }),
  })
  .openapi("Grant");

export const history = z
  .object({
    now: z.iso.datetime().openapi({ description: "What the key's clock shows." }),
    grants: z
      .array(grant)
      .max(200)
      .openapi({ description: "The newest grants, in the order of their hand-over. Kept in memory only." }),
  })
  .openapi("History");

export const keyReply = z
  .object({
    key,
    kind: z.enum(["lock", "semaphore"]),
    limit: wholeNumber(1, Number.MAX_SAFE_INTEGER),
    holders: count(),
    waiters: count(),
    idle_s: duration("Seconds since the key was last used. Absent while it has a holder or waiter.").optional(),
    held_by: z.array(heldBy),
    queue: z.array(queued),
    history: history.optional(),
  })
  .openapi("KeyDetail");

const peer = z
  .object({
    id: z.string(),
    present: z.boolean().openapi({ description: "Heard from in the last seconds: it counts towards a quorum." }),
    heard_s: duration("Seconds since it was last heard from. Absent if that is not known.").optional(),
  })
  .openapi("Peer");

export const relayReply = z
  .object({
    id: z.string().optional().openapi({ description: "The name of this deployment. Absent if it has no peers." }),
    quorum_need: wholeNumber(1, 9).openapi({ description: "How many deployments are a majority, with this one." }),
    quorum_ok: z.boolean().openapi({ description: "So many of them are there." }),
    peers: z.array(peer).openapi({ description: "The other deployments of the group." }),
  })
  .openapi("RelayGroup");

export const ticketReply = z
  .object({
    ticket: z
      .string()
      .openapi({ description: "A JSON Web Token. Use it as bearer token, or as `ticket` on `/v1/ws`." }),
    expires_in_s: wholeNumber(1, Number.MAX_SAFE_INTEGER),
  })
  .openapi("TicketReply");

export const removalReply = z
  .object({ key, owner_conn_id: owner, protocol, label, fence, held_s: duration("Seconds the slot had been held.") })
  .openapi("RemovalReply");

export type AcquireReply = z.infer<typeof acquireReply>;
export type EnqueueReply = z.infer<typeof enqueueReply>;
export type RenewReply = z.infer<typeof renewReply>;
export type SessionReply = z.infer<typeof sessionReply>;
export type HeldBy = z.infer<typeof heldBy>;
export type Queued = z.infer<typeof queued>;
export type StatsReply = z.infer<typeof statsReply>;
export type KeyReply = z.infer<typeof keyReply>;
export type RelayReply = z.infer<typeof relayReply>;
export type TicketReply = z.infer<typeof ticketReply>;
export type RemovalReply = z.infer<typeof removalReply>;
