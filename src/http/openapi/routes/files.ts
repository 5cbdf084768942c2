import { z } from "@hono/zod-openapi";
import { deleteFileHeaders, fileQuery, namePath, putFileHeaders } from "../schemas.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, BEARER_OR_BASIC, DONE, text } from "./operation.ts";

const LOCK_TEXT = "pid=42\ntimestamp=1774945200\ntag=deploy\nfence=1774945200000000007\nexpires=1774948800\n";

const seconds = (description: string) => ({ required: true, description, schema: { type: "string" as const } });
/** Headers of every reply that carries a lock text. */
const OF_HOLD = {
  ETag: { required: true, description: "The fence of the grant, in quotes.", schema: { type: "string" as const } },
  "X-Stale-Timeout": seconds("The lease, in seconds."),
  "X-Expires-In": seconds("Seconds left of it, rounded up."),
};
const LOCATION = {
  Location: { required: true, description: "The file.", schema: { type: "string" as const } },
};

function lockText(description: string, headers: object = {}) {
  return { ...text(description, "text/plain", LOCK_TEXT), headers: { ...OF_HOLD, ...headers } };
}

const params = z.object({ name: namePath });
const SHARED = { path: "/v1/files/{name}", tags: ["files"], ...BEARER_OR_BASIC } satisfies Partial<ApiOperation>;
const ANY_FAILS = ["BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Failed"] as const;
const OTHER_HOLDER = lockText("Somebody else holds the key: the text says who.");

export const fileOperations = {
  getFile: {
    ...SHARED,
    method: "get",
    summary: "Read a lock file",
    description:
      "The holder of the key as the text of a lock file. A holder of another protocol has `pid=0` and is named by its " +
      "protocol, as in `tag=holdfast:dflockd` or `holdfast:terraform`. Asking changes nothing.",
    request: { params },
    responses: { 200: lockText("The holder."), ...failures(...ANY_FAILS, "NotHeld", "Unavailable") },
  },
  putFile: {
    ...SHARED,
    method: "put",
    summary: "Create or refresh a lock file",
    description:
      "With `If-None-Match: *` creates the file, if nobody holds the key; with `?wait=` it waits in the queue of the key for " +
      "that. The holder has no session: the file stays until it is removed or its time, `X-Stale-Timeout`, is over. " +
      "With `If-Match` it sets that time again, and the tag if one is given.\n\n" +
      "The body is a lock text in which nothing is required: `pid`, `tag`, `nonce`, at most 16,384 bytes. A PUT with the " +
      "nonce of the holder changes nothing and answers 200: so a request whose reply was lost can be repeated.",
    request: {
      params,
      query: fileQuery,
      headers: putFileHeaders,
      body: {
        required: false,
        content: { "text/plain": { schema: z.string().openapi({ maxLength: 16_384 }), example: "tag=deploy" } },
      },
    },
    responses: {
      200: lockText("Refreshed, or created by the same request before."),
      201: lockText("Created.", LOCATION),
      412: OTHER_HOLDER,
      ...failures(...ANY_FAILS, "NotHeld", "ClientCanceled", "AcquireConflict", "PreconditionRequired", "GrantRefused"),
    },
  },
  deleteFile: {
    ...SHARED,
    method: "delete",
    summary: "Remove a lock file",
    description:
      "Removes the file; whoever waits next for the key gets it. Whoever may call the API may do that, as whoever may write " +
      "a directory may remove a lock file in it. `If-Match` makes sure that it is the right one. Holders of other " +
      "protocols cannot be released here.",
    request: { params, headers: deleteFileHeaders },
    responses: {
      ...DONE,
      412: OTHER_HOLDER,
      ...failures(...ANY_FAILS, "NotHeld", "ForeignHolder", "HandOverRefused"),
    },
  },
} satisfies Record<string, ApiOperation>;
