import { afterAll, describe, expect, it } from "vitest";
import { retold } from "../support/retold.ts";
import type { TestServer } from "../support/server.ts";
import { Slots } from "../support/slots.ts";
import { EVERY_WAY, Player } from "./play.ts";
import { readTranscripts } from "./transcript.ts";

const transcripts = readTranscripts("client");
const plays = new Slots(16);

describe.each(EVERY_WAY)("a godistlock client over $transport, on $host.name", { concurrent: true }, (way) => {
  const { host, transport } = way;
  /** One server for all cases with the same variables: they use locks of their own. */
  const servers = new Map<string, Promise<TestServer>>();
  afterAll(() => Promise.all(Array.from(servers.values(), async (server) => (await server).stop())));

  it.each(transcripts)("$id $title", async (transcript) => {
    const { variables } = transcript;
    const name = JSON.stringify(variables);
    const sharing = servers.get(name) ?? host.start({ variables });
    servers.set(name, sharing);
    await sharing;
    await plays.use(() =>
      retold(async (attempt) => {
        if (attempt === 1) return new Player(transcript, transport).play(await sharing);
        await using server = await host.start({ variables });
        // Not without `await`: the server would be stopped at once.
        return await new Player(transcript, transport).play(server);
      }),
    );
  });
});

it("has all its transcripts", () => {
  expect(transcripts.map(({ id }) => Number(id.slice(1)))).toEqual(Array.from({ length: 51 }, (_, n) => n + 1));
});
