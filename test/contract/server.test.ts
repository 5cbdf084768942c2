import { afterAll, beforeAll, describe, vi } from "vitest";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { clientHarness } from "./client-adapter.ts";
import { contract } from "./contract.ts";
import { restHarness } from "./rest-adapter.ts";
import { wireHarness } from "./wire-adapter.ts";

vi.setConfig({ maxConcurrency: 40 });

describe.each(HOSTS)("on $name", { concurrent: true }, (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  contract("TCP sessions", async () => wireHarness("tcp", server), { concurrent: true });
  contract("WebSocket sessions", async () => wireHarness("ws", server), { concurrent: true });
  contract("REST sessions", async () => restHarness(server), { concurrent: true, canCancel: true });
  contract("the client library", async () => clientHarness(server), { concurrent: true, canCancel: true });
});
