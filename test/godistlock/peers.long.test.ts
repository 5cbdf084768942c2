import { expect, it } from "vitest";
import { NODE } from "../support/hosts.ts";
import { Api } from "../support/rest.ts";
import { Group, given, sleep } from "./group.ts";

it("a server of a group tells over HTTP when its peers are gone, and when they are back", async () => {
  await using group = await Group.start(NODE, NODE, NODE);
  const api = new Api(group.at(0));
  const peers = async () => JSON.parse((await api.get("/v1/relay")).body);
  expect(await peers()).toMatchObject({ quorum_ok: true });
  await Promise.all([group.at(1).kill9(), group.at(2).kill9()]);
  await expect
    .poll(peers, { timeout: 20_000, interval: 500 })
    .toMatchObject({ quorum_ok: false, peers: [{ present: false }, { present: false }] });
  await group.at(2).restart();
  await expect
    .poll(peers, { timeout: 10_000, interval: 500 })
    .toMatchObject({ quorum_ok: true, peers: [{ present: false }, { present: true }] });
});

it("five servers that were silent for a while still agree, on connections that are still open", async () => {
  await using group = await Group.start(NODE, NODE, NODE, NODE, NODE);
  const clients = await Promise.all([0, 1, 2, 3, 4].map((index) => group.client(index)));
  for (const [index, client] of clients.entries()) given(await client.ask(`ON lock${index} 60000`));
  await sleep(12_000);
  given(await (clients[0] as (typeof clients)[0]).ask("TRY another 1000"));
});
