import { z } from "@hono/zod-openapi";
import { LABEL_HEADER, labelHeader, sessionIdPath, sessionReply } from "../schemas.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, bodyOf, DONE, reply } from "./operation.ts";

const params = z.object({ id: sessionIdPath });

export const sessionOperations = {
  createSession: {
    method: "post",
    path: "/v1/sessions",
    tags: ["sessions"],
    summary: "Create a session",
    description:
      "Begins a session. Locks and semaphores are asked for in its name, with header `X-Dflockd-Session`. " +
      "A session that is neither used nor pinged for twice `idle_timeout_s` ends, and what it holds is released.",
    request: { headers: z.object({ [LABEL_HEADER]: labelHeader }), body: bodyOf("createSession", { plain: {} }) },
    responses: {
      200: reply("The session.", sessionReply, {
        created: { session_id: "5f0c2a9be1d84376a1b2c3d4e5f60718", idle_timeout_s: 20 },
      }),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "RateLimited", "SessionFailed", "SessionRefused"),
    },
  },
  deleteSession: {
    method: "delete",
    path: "/v1/sessions/{id}",
    tags: ["sessions"],
    summary: "End a session",
    description:
      "Ends the session: its waiting requests answer `session_gone`, its places in queues are given up, and what it " +
      "holds is released. Nothing is granted to it afterwards.",
    request: { params },
    responses: {
      ...DONE,
      ...failures("BadRequest", "Unauthorized", "Forbidden", "SessionGone", "RateLimited", "Failed", "HandOverRefused"),
    },
  },
  pingSession: {
    method: "post",
    path: "/v1/sessions/{id}/ping",
    tags: ["sessions"],
    summary: "Keep a session alive",
    description: "Says that the session is still in use. Ping at half of `idle_timeout_s`.",
    request: { params },
    responses: {
      ...DONE,
      ...failures("BadRequest", "Unauthorized", "Forbidden", "SessionGone", "RateLimited", "Failed", "Unavailable"),
    },
  },
} satisfies Record<string, ApiOperation>;
