import { z } from "@hono/zod-openapi";
import { keyPath, removalQuery, removalReply, ticketReply } from "../schemas.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, bodyOf, reply } from "./operation.ts";

/** The registered type of an SQLite file. */
export const BACKUP_TYPE = "application/vnd.sqlite3";

export const ticketOperations = {
  createTicket: {
    method: "post",
    path: "/v1/tickets",
    tags: ["tickets"],
    summary: "Issue a ticket",
    description:
      "A signed pass for a browser or another client that must not know the service's token: good for some keys and " +
      "operations, and for a short time. It cannot be taken back before it expires.",
    request: {
      body: bodyOf("createTicket", {
        browser: { keys: ["deploy", "build/*"], operations: ["lock", "stats"], ttl_s: 300 },
      }),
    },
    responses: {
      200: reply("The ticket.", ticketReply, {
        issued: { ticket: "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl", expires_in_s: 300 },
      }),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Failed"),
    },
  },
} satisfies Record<string, ApiOperation>;

export const adminOperations = {
  getBackup: {
    method: "get",
    path: "/v1/admin/backup",
    tags: ["admin"],
    summary: "Copy the database",
    description:
      "Everything that was stored at one moment, as an SQLite file: put it into an empty data directory as `holdfast.db` " +
      "and start a server there. It holds the tokens of all locks: keep it as secret as the admin token, which this " +
      "needs as bearer token. 404 where there is no file to copy: on Cloudflare, and with `--data-dir :memory:`.",
    responses: {
      200: {
        description: "The copy.",
        headers: {
          "Content-Length": { required: true, schema: { type: "integer" as const }, description: "Its size in bytes." },
        },
        content: {
          [BACKUP_TYPE]: {
            schema: { type: "string" as const, format: "binary" },
            example: "SQLite format 3",
          },
        },
      },
      ...failures("Unauthorized", "Forbidden", "NotFound", "RateLimited", "Failed", "BackupRefused"),
    },
  },
  removeHolder: {
    method: "delete",
    path: "/v1/admin/holders/{key}",
    tags: ["admin"],
    summary: "Take a slot from its holder",
    description:
      "Ends the grant with this fence and passes the slot on. The holder is not asked: whatever it protects must check " +
      "fences. Needs the admin token as bearer token.",
    request: { params: z.object({ key: keyPath }), query: removalQuery },
    responses: {
      200: reply("The grant that ended.", removalReply, {
        removed: {
          key: "nightly",
          owner_conn_id: 6120443871234567,
          label: "ci-runner-7",
          fence: "18a2f0c4d5e60007",
          held_s: 11.25,
        },
      }),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "NotHeld", "RateLimited", "Failed", "HandOverRefused"),
    },
  },
} satisfies Record<string, ApiOperation>;
