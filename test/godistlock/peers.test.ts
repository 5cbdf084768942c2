import { describe, expect, it } from "vitest";
import { HOSTS } from "../support/hosts.ts";
import { Api } from "../support/rest.ts";
import { Group } from "./group.ts";

const THERE = { present: true, heard_s: expect.any(Number) };

describe.each(HOSTS)("on $name", (host) => {
  it("a server of a group tells over HTTP which peers are there, and whether they are a majority", async () => {
    await using group = await Group.start(host, host, host);
    // Nobody has asked for a lock yet: the peers are asked for a sign of life.
    expect(JSON.parse((await new Api(group.at(0)).get("/v1/relay")).body)).toEqual({
      id: "s0",
      quorum_need: 2,
      quorum_ok: true,
      peers: [
        { id: "s1", ...THERE },
        { id: "s2", ...THERE },
      ],
    });
  });

  it("a server without peers is a majority by itself; who may not see stats is not told", async () => {
    await using server = await host.start({ variables: { AUTH_TOKEN: "the shared token" } });
    const api = new Api(server);
    expect((await api.get("/v1/relay")).status).toBe(401);
    const reply = await api.get("/v1/relay", { Authorization: "Bearer the shared token" });
    expect(JSON.parse(reply.body)).toEqual({ quorum_need: 1, quorum_ok: true, peers: [] });
  });
});
