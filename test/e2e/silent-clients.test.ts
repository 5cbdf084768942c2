/** Clients that say nothing, and are cut off by the server: nothing of their connections is left open. */
import { readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";
import { ask } from "../support/wire-client.ts";

const CROWD = 12;

describe.each(HOSTS)("silent clients, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    // With a cap for each address, one part of Cloudflare's directory lists them all, and the others stay closed.
    const variables = { AUTH_TOKEN: "secret", READ_TIMEOUT_S: "1", MAX_CONNECTIONS_PER_IP: "100" };
    server = await host.start({ variables });
  });
  afterAll(() => server.stop());

  const descriptors = () => readdirSync(`/proc/${server.pid}/fd`).length;

  it.each(["tcp", "ws"] as const)(
    "%s: their connections end at once, and the client beside them stays",
    async (kind) => {
      using clients = new Clients(server);
      const client = await clients[kind]();
      expect(await ask(client, "auth", "_", "secret")).toBe("ok");
      const before = descriptors();
      const crowd = await Promise.all(Array.from({ length: CROWD }, () => clients[kind]()));
      await poll("the crowd to come in", 3_000, async () => descriptors() >= before + CROWD || undefined);
      for (const silent of crowd) {
        expect(await silent.next(3_000)).toMatch(/^error_auth\n?$/);
        await silent.closed(1_000);
      }
      await poll("the descriptors to be closed", 3_000, async () => descriptors() <= before || undefined);
      expect(await ask(client, "ping", "_", "_")).toBe("ok");
    },
  );
});
