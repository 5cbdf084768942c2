import { z } from "@hono/zod-openapi";
import {
  healthReply,
  keyPath,
  keyQuery,
  keyReply,
  metricsQuery,
  notReadyReply,
  relayReply,
  statsQuery,
  statsReply,
  upgradeQuery,
} from "../schemas.ts";
import { DETAILED_STATS, GROUP, KEY, KEY_WITH_HISTORY, METRICS, STATS } from "./examples.ts";
import { failures } from "./failures.ts";
import { type ApiOperation, CACHED_BRIEFLY, page, reply, text } from "./operation.ts";

const OPEN = { security: [] };
const HEALTHY = reply("All is well.", healthReply, { ok: { status: "ok" } });

export const introspectionOperations = {
  getHealth: {
    method: "get",
    path: "/health",
    tags: ["introspection"],
    summary: "Is the service alive?",
    description: "200 whenever code runs, also while draining or misconfigured.",
    ...OPEN,
    responses: { 200: HEALTHY },
  },
  getReady: {
    method: "get",
    path: "/ready",
    tags: ["introspection"],
    summary: "Does the service take new work?",
    description: "200 when it does; otherwise 503 with the reason.",
    ...OPEN,
    responses: {
      200: HEALTHY,
      503: reply("It does not.", notReadyReply, {
        misconfigured: { status: "misconfigured" },
        draining: { status: "draining" },
        unavailable: { status: "unavailable" },
      }),
    },
  },
  getMetrics: {
    method: "get",
    path: "/metrics",
    tags: ["introspection"],
    summary: "Metrics for Prometheus",
    description:
      "Counters, gauges and histograms in Prometheus' text format. No label holds a key, token or address. On " +
      'Cloudflare at most a hundred keys are asked; figures that are therefore estimates are labelled `estimated="true"`.',
    request: { query: metricsQuery },
    responses: {
      200: text("The metrics.", "text/plain", METRICS),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Failed", "Unavailable"),
    },
  },
  getOpenAPI: {
    method: "get",
    path: "/v1/openapi.json",
    tags: ["introspection"],
    summary: "This document",
    description: "The OpenAPI document of the running version.",
    ...OPEN,
    responses: {
      200: {
        description: "The document.",
        headers: CACHED_BRIEFLY,
        content: {
          "application/json": {
            schema: {
              type: "object",
              properties: { openapi: { type: "string", enum: ["3.1.0"] } },
              required: ["openapi"],
            },
            examples: { document: { value: { openapi: "3.1.0" } } },
          },
        },
      },
      ...failures("RateLimited", "Failed"),
    },
  },
  getReference: {
    method: "get",
    path: "/docs",
    tags: ["introspection"],
    summary: "The reference as a page",
    description: "This document for people: one page without scripts or outside resources.",
    ...OPEN,
    responses: {
      200: page("The page.", "text/html", "<!doctype html>…"),
      ...failures("RateLimited", "Failed"),
    },
  },
  getStats: {
    method: "get",
    path: "/v1/stats",
    tags: ["introspection"],
    summary: "Who holds what",
    description:
      "Sessions, and keys in the order of their bytes. Tokens never appear; asking changes nothing. " +
      "A page that is not the last carries `next_cursor`; it may have fewer keys than `limit`: on Cloudflare a " +
      "reply asks, and wakes, at most a hundred keys.",
    request: { query: statsQuery },
    responses: {
      200: reply("The service at a glance.", statsReply, { plain: STATS, detailed: DETAILED_STATS }),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "RateLimited", "Failed", "Unavailable"),
    },
  },
  getKey: {
    method: "get",
    path: "/v1/keys/{key}",
    tags: ["introspection"],
    summary: "One key in detail",
    description: "Who holds the key and who waits for it, in order. Asking changes nothing and creates no key.",
    request: { params: z.object({ key: keyPath }), query: keyQuery },
    responses: {
      200: reply("The key.", keyReply, { lock: KEY, history: KEY_WITH_HISTORY }),
      ...failures("BadRequest", "Unauthorized", "Forbidden", "NotFound", "RateLimited", "Failed", "Unavailable"),
    },
  },
  getRelay: {
    method: "get",
    path: "/v1/relay",
    tags: ["introspection"],
    summary: "The other deployments of the group",
    description:
      "Which peers are heard from, and whether they are a majority with this deployment. Silent ones are asked for a " +
      "sign of life first, for half a second. Without peers, a deployment is a majority by itself.",
    responses: {
      200: reply("The group.", relayReply, { group: GROUP, alone: { quorum_need: 1, quorum_ok: true, peers: [] } }),
      ...failures("Unauthorized", "Forbidden", "RateLimited", "Failed", "Unavailable"),
    },
  },
  openWebSocket: {
    method: "get",
    path: "/v1/ws",
    tags: ["introspection"],
    summary: "Open a WebSocket",
    description:
      "The wire protocol over a WebSocket (subprotocol `dflockd.v2`): one session per socket, waits of any length. " +
      "Without credentials here, the first message authenticates where the service asks for it.",
    security: [{}, { bearerAuth: [] }],
    request: { query: upgradeQuery },
    responses: {
      101: {
        description: "The socket is open.",
        headers: {
          "Sec-WebSocket-Protocol": {
            description: "If the client offered it.",
            schema: { type: "string", enum: ["dflockd.v2"] },
          },
        },
      },
      ...failures("BadRequest", "Unauthorized", "UpgradeForbidden", "UpgradeRequired", "RateLimited", "Failed"),
      ...failures("ConnectionRefused"),
    },
  },
} satisfies Record<string, ApiOperation>;
