/** Keep-alives that the platform answers, while the service has something to say on the same socket. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { startWorker } from "../support/cloudflare-server.ts";
import { ask, lock, type WireClient } from "../support/wire-client.ts";

const KEEPALIVE = "@keepalive ping\n_\n_\n";
const CLIENTS = 24;
const ROUNDS = 20;
const BURST = 8;

/** Keep-alives, and a push among them. Both must arrive, however they meet. */
async function meet(client: WireClient, rival: WireClient, key: string, round: number): Promise<void> {
  client.send(`l\n${key}\n0 60 wanted\n`);
  const granted = (await client.next()).split(" ");
  // Some rounds begin while the session answers keep-alives itself, others while the platform does.
  await pause((round * 7) % 60);
  const refused = ask(rival, "l", key, "0");
  for (let count = 0; count < BURST; count++) {
    client.send(KEEPALIVE);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const heard = [];
  while (heard.length < BURST + 1) heard.push(await client.next());
  expect(heard.filter((line) => line === "@keepalive ok\n")).toHaveLength(BURST);
  expect(heard).toContain(`! wanted ${key} ${granted[1]}\n`);
  expect(await refused).toBe("timeout");
  expect(await ask(client, "r", key, granted[1] ?? "")).toBe("ok");
}

it("every keep-alive is answered and every push arrives, though they meet on the same socket", async () => {
  await using server = await startWorker();
  using clients = new Clients(server);
  await Promise.all(
    Array.from({ length: CLIENTS }, async (_, index) => {
      const [client, rival] = [await clients.ws(), await clients.ws()];
      for (let round = 0; round < ROUNDS; round++) await meet(client, rival, `key-${index}`, round);
      await lock(client, `last-${index}`);
    }),
  );
});
