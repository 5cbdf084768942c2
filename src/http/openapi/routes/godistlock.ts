import { upgradeQuery } from "../schemas/parameters.ts";
import { failures } from "./failures.ts";
import type { ApiOperation } from "./operation.ts";

export const godistlockOperations = {
  openGodistlock: {
    method: "get",
    path: "/v1/godistlock",
    tags: ["introspection"],
    summary: "Open a WebSocket that speaks godistlock",
    description:
      "The godistlock client protocol over a WebSocket (subprotocol `godistlock.v1`): one session per socket. " +
      "Without credentials here, the first line authenticates where the service asks for it.",
    security: [{}, { bearerAuth: [] }],
    request: { query: upgradeQuery.pick({ ticket: true }) },
    responses: {
      101: {
        description: "The socket is open.",
        headers: {
          "Sec-WebSocket-Protocol": {
            description: "What the client must have offered.",
            schema: { type: "string", enum: ["godistlock.v1"] },
          },
        },
      },
      ...failures("BadRequest", "Unauthorized", "UpgradeForbidden", "UpgradeRequired", "RateLimited", "Failed"),
      ...failures("ConnectionRefused"),
    },
  },
  openRelay: {
    method: "get",
    path: "/v1/godistlock/relay",
    tags: ["introspection"],
    summary: "Connect another deployment",
    description:
      "The relay protocol over a WebSocket (subprotocol `godistlock-relay.v1`), between deployments of one group. " +
      "The token is `RELAY_TOKEN`, here or in the first line. 404 on a deployment without peers.",
    security: [{}, { bearerAuth: [] }],
    responses: {
      101: {
        description: "The socket is open.",
        headers: {
          "Sec-WebSocket-Protocol": {
            description: "What the client must have offered.",
            schema: { type: "string", enum: ["godistlock-relay.v1"] },
          },
        },
      },
      ...failures("BadRequest", "Unauthorized", "UpgradeForbidden", "NotFound", "UpgradeRequired", "RateLimited"),
      ...failures("Failed"),
    },
  },
} satisfies Record<string, ApiOperation>;
