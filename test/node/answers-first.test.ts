import { expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { startServer } from "../support/server.ts";
import { lock, TRANSPORTS } from "../support/wire-client.ts";

it.each(TRANSPORTS)(
  "over %s, a client that releases and waits hears of the release before the grant",
  async (transport) => {
    await using server = await startServer();
    using clients = new Clients(server);
    const client = await clients.open(transport);
    const token = await lock(client, "own", "0 30");
    client.send("@second l\nown\n10 30\n@third l\nown\n10 30\nping\n_\n_\n");
    expect(await client.next()).toBe("ok\n");
    client.send(`@first r\nown\n${token}\n`);
    expect(await client.next()).toBe("@first ok\n");
    expect(await client.next()).toMatch(/^@second ok \w{32} 30\n$/);
  },
);
