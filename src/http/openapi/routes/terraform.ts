import { z } from "@hono/zod-openapi";
import { lockInfo, namePath, terraformLockQuery, terraformUnlockQuery, unlockedReply } from "../schemas.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, BEARER_OR_BASIC, reply } from "./operation.ts";

const INFO = { ID: "a1", Operation: "OperationTypeApply", Who: "ada@laptop" };
const MADE_UP = { ID: "1774945200000000007", Operation: "holdfast:dflockd", Info: "", Who: "" };

const ETAG = {
  ETag: { required: true, description: "The fence of the grant, in quotes.", schema: { type: "string" as const } },
};
const info = (description: string, examples: Record<string, z.input<typeof lockInfo>>) => ({
  ...reply(description, lockInfo, examples),
  headers: ETAG,
});

const params = z.object({ name: namePath });
const body = {
  required: true,
  content: { "application/json": { schema: lockInfo, examples: { lock: { value: INFO } } } },
};
const SHARED = {
  path: "/v1/terraform/{name}",
  tags: ["terraform"],
  ...BEARER_OR_BASIC,
} satisfies Partial<ApiOperation>;
const ANY_FAILS = ["BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Failed"] as const;

const lock = {
  ...SHARED,
  request: { params, query: terraformLockQuery, body },
  responses: {
    200: info("Locked, by this request or by one with the same `ID` before.", { locked: INFO }),
    423: info("Somebody else holds the key.", { terraform: { ID: "b2" }, other: MADE_UP }),
    ...failures(...ANY_FAILS, "ClientCanceled", "LimitMismatch", "GrantRefused"),
  },
} satisfies Partial<ApiOperation>;

export const terraformOperations = {
  getTerraformLock: {
    ...SHARED,
    method: "get",
    summary: "Read a Terraform lock",
    description: "The lock info of the holder, as it was sent. For a holder of another protocol it is made up.",
    request: { params },
    responses: { 200: info("The holder.", { locked: INFO }), ...failures(...ANY_FAILS, "NotHeld", "Unavailable") },
  },
  lockTerraform: {
    ...lock,
    method: "post",
    summary: "Lock, for Terraform and OpenTofu",
    description:
      "The `lock_address` of the `http` backend. The same as the method `LOCK`, which the backend uses unless told " +
      "otherwise and which OpenAPI cannot name. It answers at once; the client repeats it under `-lock-timeout`.",
  },
  putTerraformLock: {
    ...lock,
    method: "put",
    summary: "Lock, with PUT",
    description: 'The same as `LOCK` and `POST`, for `lock_method = "PUT"`.',
  },
  unlockTerraform: {
    ...SHARED,
    method: "delete",
    summary: "Unlock, for Terraform and OpenTofu",
    description:
      "The `unlock_address` of the `http` backend. The same as the method `UNLOCK`, which OpenAPI cannot name. The lock " +
      "with the `ID` of the body, or of the query if there is no body, is released; without either, whichever Terraform " +
      "lock there is. A lock that is free counts as unlocked.",
    request: { params, query: terraformUnlockQuery, body: { ...body, required: false } },
    responses: {
      200: reply("Unlocked: the lock that was released, or `{}`.", unlockedReply, { released: INFO, free: {} }),
      409: info("Another lock, or a holder of another protocol, which cannot be released here.", { other: INFO }),
      ...failures(...ANY_FAILS, "HandOverRefused"),
    },
  },
} satisfies Record<string, ApiOperation>;
