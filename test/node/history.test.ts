import { expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { send } from "../support/http-client.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

async function fencesOf({ httpPort }: TestServer, key: string): Promise<string[]> {
  const { body } = await send(httpPort, { method: "GET", path: `/v1/keys/${key}?history=true` });
  return (JSON.parse(body) as { history: { grants: { fence: string }[] } }).history.grants.map(({ fence }) => fence);
}

it("each grant is in the history once, the first of a key as well", async () => {
  await using server = await startServer();
  using clients = new Clients(server);
  const client = await clients.tcp();
  const fences: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    const token = await lock(client, "remembered", "0 30");
    fences.push(token.slice(0, 16));
    await ask(client, "r", "remembered", token);
  }
  expect(await fencesOf(server, "remembered")).toEqual(fences);
});

it("grants of one batch are in the history once, in their order", async () => {
  await using server = await startServer();
  using clients = new Clients(server);
  const client = await clients.ws();
  client.send(Array.from({ length: 5 }, (_, index) => `@${index} sl\nshared\n0 5 30\n`).join(""));
  const fences: string[] = [];
  for (let index = 0; index < 5; index += 1) fences.push((await client.next()).split(" ")[2]?.slice(0, 16) ?? "");
  expect(await fencesOf(server, "shared")).toEqual(fences.toSorted());
});
