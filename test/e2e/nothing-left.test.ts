/** Whatever clients do and however they leave, nothing of theirs stays behind. */
import { afterAll, beforeAll, beforeEach, describe, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { nothingIsLeft } from "../support/stats.ts";
import { lock, TRANSPORTS, type WireClient } from "../support/wire-client.ts";

describe.each(HOSTS)("nothing is left, on $name", (host) => {
  let server: TestServer;
  let observer: WireClient;
  let observing: Clients;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    observing = new Clients(server);
    observer = await observing.tcp();
    return () => observing[Symbol.dispose]();
  });

  describe.each(TRANSPORTS)("over %s", (transport) => {
    it("clients that vanish at any moment of a mixed load leave nothing", async () => {
      using clients = new Clients(server);
      const keyOf = (step: number) => `mixed-${transport}-${step % 4}`;
      const wander = async (client: WireClient, seed: number, steps: number) => {
        for (let step = 0; step < steps; step += 1) {
          const key = keyOf(seed + step);
          client.send(`@a${step} l\n${key}\n5\n@b${step} e\n${key}\n\n@c${step} w\n${key}\n5\n`);
          client.send(`@d${step} l\nown-${transport}-${seed}\n0 30\n`);
          await client.next();
        }
      };
      await Promise.all(
        Array.from({ length: 40 }, async (_, seed) => {
          const client = await clients.open(transport);
          await wander(client, seed, 1 + (seed % 5));
          if (seed % 3 === 0) client.destroy();
          else if (seed % 3 === 1) client.close();
          else client.halfclose();
        }),
      );
      await nothingIsLeft(observer);
      for (let step = 0; step < 4; step += 1) await lock(observer, keyOf(step));
    });
  });
});
