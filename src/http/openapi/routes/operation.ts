import type { RouteConfig, z } from "@hono/zod-openapi";
import { REQUESTS, type RequestId } from "../schemas.ts";

/** One operation of the API; its id is its name in the table. */
export type ApiOperation = Omit<RouteConfig, "operationId" | "method" | "tags" | "summary" | "description"> & {
  readonly method: "get" | "post" | "put" | "delete";
  readonly path: `/${string}`;
  readonly tags: [Tag];
  readonly summary: string;
  readonly description: string;
};

/** The groups of operations, in the order in which readers see them. */
export const TAGS = [
  { name: "sessions", description: "A session is who holds and who waits. It lives as long as it is used or pinged." },
  { name: "locks", description: "One holder at a time, first come, first served." },
  { name: "semaphores", description: "Up to `limit` holders at a time. A lock is a semaphore with limit 1." },
  { name: "files", description: "Lock files: holders without a session, in the same queues as all others." },
  {
    name: "terraform",
    description: "Locking for the `http` backend of Terraform and OpenTofu. The state itself lives elsewhere.",
  },
  { name: "introspection", description: "How the service is doing, and what it offers." },
  { name: "tickets", description: "Short-lived passes for clients that must not know the service's token." },
  { name: "admin", description: "For operators, with the admin token." },
] as const;

export type Tag = (typeof TAGS)[number]["name"];

/** Named examples of a body or reply. */
export type Examples<Value> = Readonly<Record<string, Value>>;

function media<Value>(schema: z.ZodType<Value>, examples: Examples<Value>) {
  const named = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return { "application/json": { schema, examples: Object.fromEntries(named) } };
}

/** A JSON reply with examples of it. */
export function reply<Value>(description: string, schema: z.ZodType<Value>, examples: Examples<Value>) {
  return { description, content: media(schema, examples) };
}

/** The body of an operation: the same schema it is validated against. */
export function bodyOf<Id extends RequestId>(id: Id, examples: Examples<z.input<(typeof REQUESTS)[Id]["schema"]>>) {
  const { schema, mayBeEmpty } = REQUESTS[id];
  const named = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return { required: !mayBeEmpty, content: { "application/json": { schema, examples: Object.fromEntries(named) } } };
}

/** A reply of plain text, not JSON. */
export function text(description: string, type: string, example: string) {
  return { description, content: { [type]: { schema: { type: "string" as const }, example } } };
}

/** Headers of static parts of the service. */
export const CACHED_BRIEFLY = {
  "Cache-Control": { required: true, schema: { type: "string" as const, enum: ["public, max-age=60"] } },
};

/** Static text of the service, the same for all callers. */
export function page(description: string, type: string, example: string) {
  return { ...text(description, type, example), headers: CACHED_BRIEFLY };
}

/** For operations that also accept the token as a password. */
export const BEARER_OR_BASIC = { security: [{ bearerAuth: [] }, { basicAuth: [] }] };

/** The reply of an operation that returns nothing. */
export const DONE = { 204: { description: "Done." } };
