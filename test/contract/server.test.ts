import { afterAll, beforeAll, describe, vi } from "vitest";
import { HOSTS } from "../support/hosts.ts";
import { retold } from "../support/retold.ts";
import type { TestServer } from "../support/server.ts";
import { clientHarness } from "./client-adapter.ts";
import { contract } from "./contract.ts";
import { restHarness } from "./rest-adapter.ts";
import { wireHarness } from "./wire-adapter.ts";

vi.setConfig({ maxConcurrency: 20 });

describe.each(HOSTS)("on $name", { concurrent: true }, (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  const inRealTime = { concurrent: true, tell: retold };
  contract("TCP sessions", async () => wireHarness("tcp", server), inRealTime);
  contract("WebSocket sessions", async () => wireHarness("ws", server), inRealTime);
  contract("REST sessions", async () => restHarness(server), { ...inRealTime, canCancel: true });
  contract("the client library", async () => clientHarness(server), { ...inRealTime, canCancel: true });
});
