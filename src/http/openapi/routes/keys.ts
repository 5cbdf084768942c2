import { z } from "@hono/zod-openapi";
import {
  acquireReply,
  enqueueReply,
  keyPath,
  LABEL_HEADER,
  labelHeader,
  renewReply,
  SESSION_HEADER,
  sessionHeader,
} from "../schemas.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, bodyOf, DONE, reply } from "./operation.ts";

interface Kind {
  readonly noun: "lock" | "semaphore";
  readonly tag: "locks" | "semaphores";
  readonly path: "/v1/locks/{key}" | "/v1/semaphores/{key}";
}
const LOCK: Kind = { noun: "lock", tag: "locks", path: "/v1/locks/{key}" };
const SEMAPHORE: Kind = { noun: "semaphore", tag: "semaphores", path: "/v1/semaphores/{key}" };

type Body = ReturnType<typeof bodyOf>;

const TOKEN = "18a2f0c4d5e6000791b2c3d4e5f60718";
const params = z.object({ key: keyPath });
const asSession = z.object({ [SESSION_HEADER]: sessionHeader });
const asLabelledSession = z.object({ [SESSION_HEADER]: sessionHeader, [LABEL_HEADER]: labelHeader });
const ANY_KEY_FAILS = ["BadRequest", "Unauthorized", "Forbidden", "SessionGone", "RateLimited", "Failed"] as const;

function acquire({ noun, tag, path }: Kind, body: Body): ApiOperation {
  return {
    method: "post",
    path,
    tags: [tag],
    summary: `Acquire a ${noun}`,
    description:
      `Takes a slot of the ${noun}, waiting for it up to \`acquire_timeout_s\` in the order of arrival. ` +
      "A wait that ends without a slot is `timeout`, with status 200. If the client goes away while it waits, " +
      "its place is given up. Proxies may cut requests after about 100 s; who waits longer uses the WebSocket.",
    request: { params, headers: asLabelledSession, body },
    responses: {
      200: reply("A slot, or none in time.", acquireReply, {
        ok: { status: "ok", token: TOKEN, lease_ttl_s: 33 },
        timeout: { status: "timeout" },
      }),
      ...failures(...ANY_KEY_FAILS, "ClientCanceled", "AcquireConflict", "GrantRefused"),
    },
  };
}

function release({ noun, tag, path }: Kind, body: Body): ApiOperation {
  return {
    method: "post",
    path: `${path}/release`,
    tags: [tag],
    summary: `Release a ${noun}`,
    description: `Gives the slot back; whoever waits next gets it. Any session may release with the token.`,
    request: { params, headers: asSession, body },
    responses: { ...DONE, ...failures(...ANY_KEY_FAILS, "NotHeld", "HandOverRefused") },
  };
}

function renew({ noun, tag, path }: Kind, body: Body): ApiOperation {
  return {
    method: "post",
    path: `${path}/renew`,
    tags: [tag],
    summary: `Renew the lease of a ${noun}`,
    description: "Sets the lease to end so many seconds from now, also when that is earlier than before.",
    request: { params, headers: asSession, body },
    responses: {
      200: reply("The lease just set.", renewReply, { renewed: { remaining_s: 60 } }),
      ...failures(...ANY_KEY_FAILS, "NotHeld", "HandOverRefused"),
    },
  };
}

function enqueue({ noun, tag, path }: Kind, body: Body): ApiOperation {
  return {
    method: "post",
    path: `${path}/enqueue`,
    tags: [tag],
    summary: `Take a place in the queue of a ${noun}`,
    description:
      "Answers at once: `acquired` with a slot, or `queued`. Collect the outcome with `wait`. " +
      "A slot granted meanwhile is held from that moment, and lost if its lease ends before `wait` comes.",
    request: { params, headers: asLabelledSession, body },
    responses: {
      200: reply("A slot, or a place in the queue.", enqueueReply, {
        acquired: { status: "acquired", token: TOKEN, lease_ttl_s: 33 },
        queued: { status: "queued" },
      }),
      ...failures(...ANY_KEY_FAILS, "ClientCanceled", "EnqueueConflict", "GrantRefused"),
    },
  };
}

function wait({ noun, tag, path }: Kind, body: Body): ApiOperation {
  return {
    method: "post",
    path: `${path}/wait`,
    tags: [tag],
    summary: `Wait for a ${noun} after enqueue`,
    description:
      "Waits up to `timeout_s` for the slot that `enqueue` asked for; the lease begins again with this reply. " +
      "A wait that ends without a slot is `timeout`, with status 200, and gives up the place.",
    request: { params, headers: asSession, body },
    responses: {
      200: reply("The slot, or none in time.", acquireReply, {
        ok: { status: "ok", token: TOKEN, lease_ttl_s: 33 },
        timeout: { status: "timeout" },
      }),
      ...failures(...ANY_KEY_FAILS, "ClientCanceled", "WaitConflict", "HandOverRefused"),
    },
  };
}

const RELEASE = { release: { token: TOKEN } };
const RENEW = { renew: { token: TOKEN, lease_ttl_s: 60 } };
const WAIT = { wait: { timeout_s: 10 } };

export const lockOperations = {
  acquireLock: acquire(
    LOCK,
    bodyOf("acquireLock", { wait: { acquire_timeout_s: 10, lease_ttl_s: 60 }, try: { acquire_timeout_s: 0 } }),
  ),
  releaseLock: release(LOCK, bodyOf("releaseLock", RELEASE)),
  renewLock: renew(LOCK, bodyOf("renewLock", RENEW)),
  enqueueLock: enqueue(LOCK, bodyOf("enqueueLock", { enqueue: { lease_ttl_s: 60 } })),
  waitLock: wait(LOCK, bodyOf("waitLock", WAIT)),
};

export const semaphoreOperations = {
  acquireSem: acquire(
    SEMAPHORE,
    bodyOf("acquireSem", {
      wait: { acquire_timeout_s: 10, lease_ttl_s: 60, limit: 3 },
      try: { acquire_timeout_s: 0, limit: 3 },
    }),
  ),
  releaseSem: release(SEMAPHORE, bodyOf("releaseSem", RELEASE)),
  renewSem: renew(SEMAPHORE, bodyOf("renewSem", RENEW)),
  enqueueSem: enqueue(SEMAPHORE, bodyOf("enqueueSem", { enqueue: { lease_ttl_s: 60, limit: 3 } })),
  waitSem: wait(SEMAPHORE, bodyOf("waitSem", WAIT)),
};
