/** A request that is taken back leaves nothing behind, however close its withdrawal follows it. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { HOSTS } from "../support/hosts.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";
import { ask, TRANSPORTS } from "../support/wire-client.ts";

describe.each(HOSTS)("cancelling, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  it.each(TRANSPORTS)("requests taken back in the same breath, many at a time, over %s", async (transport) => {
    using clients = new Clients(server);
    const [client, other] = [await clients.open(transport), await clients.open(transport)];
    const keys = Array.from({ length: 20 }, (_, index) => `cancel-${transport}-${index}`);
    client.send(keys.map((key, index) => `@${index} l\n${key}\n60\n@c${index} cancel\n_\n${index}\n`).join(""));
    for (const _ of keys) {
      const answers = [await client.next(), await client.next()];
      expect(answers.join("")).toMatch(/^(@\d+ cancelled\n@c\d+ ok\n|@\d+ ok \S+ 33\n@c\d+ ok\n)$/);
    }
    for (const key of keys)
      await poll(
        `${key} to be free`,
        2_000,
        async () => (await ask(other, "l", key, "0")).startsWith("ok") || undefined,
      );
  });
});
