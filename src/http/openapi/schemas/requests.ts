import { z } from "@hono/zod-openapi";
import { seconds, unbrokenText, wholeNumber } from "./rules.ts";

const MAX_SLOTS = 1_048_576;
const MAX_PATTERNS = 64;
const LONGEST_TICKET_S = 86_400;

const acquireTimeout = seconds()
  .default(0)
  .openapi({ description: "How long to wait for a slot, in seconds. 0 or absent: do not wait." });
const waitTimeout = seconds()
  .default(0)
  .openapi({ description: "How long to wait for the grant, in seconds. 0 or absent: do not wait." });
const lease = seconds().default(0).openapi({
  description: "Lease in seconds: how long the slot stays held unless renewed. 0 or absent: the default lease.",
});
const limit = wholeNumber(1, MAX_SLOTS).openapi({
  description: "Slots of the semaphore. Everyone who uses the key must name the same number.",
});
const token = unbrokenText().openapi({ description: "The token of the grant; at most 256 bytes." });

export const acquireLockRequest = z
  .strictObject({ acquire_timeout_s: acquireTimeout, lease_ttl_s: lease })
  .openapi("AcquireLockRequest");
export const acquireSemRequest = z
  .strictObject({ acquire_timeout_s: acquireTimeout, lease_ttl_s: lease, limit })
  .openapi("AcquireSemRequest");
export const enqueueLockRequest = z.strictObject({ lease_ttl_s: lease }).openapi("EnqueueLockRequest");
export const enqueueSemRequest = z.strictObject({ lease_ttl_s: lease, limit }).openapi("EnqueueSemRequest");
export const waitRequest = z.strictObject({ timeout_s: waitTimeout }).openapi("WaitRequest");
export const releaseRequest = z.strictObject({ token }).openapi("ReleaseRequest");
export const renewRequest = z.strictObject({ token, lease_ttl_s: lease }).openapi("RenewRequest");
export const createSessionRequest = z.strictObject({}).openapi("CreateSessionRequest");

const ticketOperation = z.enum(["lock", "semaphore", "stats"], { error: "must be one of lock, semaphore, stats" });

const patternsRule = { error: `must be a list of 1 to ${MAX_PATTERNS} keys or prefixes` };
const operationsRule = { error: "must be a list of lock, semaphore, stats, each at most once" };

export const ticketRequest = z
  .strictObject({
    keys: z
      .array(unbrokenText(), patternsRule)
      .min(1, patternsRule)
      .max(MAX_PATTERNS, patternsRule)
      .openapi({ description: "Keys the ticket is good for: exact ones, or prefixes that end in `*`." }),
    operations: z
      .array(ticketOperation, operationsRule)
      .min(1, operationsRule)
      .refine((names) => new Set(names).size === names.length, operationsRule)
      .openapi({ description: "What the ticket allows on these keys.", uniqueItems: true }),
    ttl_s: wholeNumber(1, LONGEST_TICKET_S)
      .default(300)
      .openapi({ description: "How long the ticket is good, in seconds." }),
  })
  .openapi("TicketRequest");

/**
 * The body of every operation that takes one. An empty body is refused unless `mayBeEmpty`; the bodies of all other
 * operations are not read.
 */
export const REQUESTS = {
  createSession: { schema: createSessionRequest, mayBeEmpty: true },
  acquireLock: { schema: acquireLockRequest, mayBeEmpty: false },
  releaseLock: { schema: releaseRequest, mayBeEmpty: false },
  renewLock: { schema: renewRequest, mayBeEmpty: false },
  enqueueLock: { schema: enqueueLockRequest, mayBeEmpty: true },
  waitLock: { schema: waitRequest, mayBeEmpty: false },
  acquireSem: { schema: acquireSemRequest, mayBeEmpty: false },
  releaseSem: { schema: releaseRequest, mayBeEmpty: false },
  renewSem: { schema: renewRequest, mayBeEmpty: false },
  enqueueSem: { schema: enqueueSemRequest, mayBeEmpty: false },
  waitSem: { schema: waitRequest, mayBeEmpty: false },
  createTicket: { schema: ticketRequest, mayBeEmpty: false },
} as const;

export type RequestId = keyof typeof REQUESTS;
export type RequestOf<Id extends RequestId> = z.output<(typeof REQUESTS)[Id]["schema"]>;
