import { afterAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { Slots } from "../support/slots.ts";
import { Player } from "./play.ts";
import { readTranscripts } from "./transcript.ts";

const transcripts = readTranscripts("client");

describe.each(["tcp", "ws"] as const)("a godistlock client over %s", { concurrent: true }, (transport) => {
  /** One server for all cases with the same variables: they use locks of their own. */
  const servers = new Map<string, Promise<TestServer>>();
  afterAll(() => Promise.all(Array.from(servers.values(), async (server) => (await server).stop())));

  const plays = new Slots(8);

  it.each(transcripts)("$id $title", async (transcript) => {
    const player = new Player(transcript, transport);
    const variables = await player.prepare();
    const name = JSON.stringify(variables);
    const starting = servers.get(name) ?? startServer({ variables });
    servers.set(name, starting);
    const server = await starting;
    try {
      await plays.use(() => player.play(server));
    } catch (error) {
      throw new Error(`${String(error)}\n${server.log}`, { cause: error });
    }
  });
});

it("has all its transcripts", () => {
  expect(transcripts.map(({ id }) => Number(id.slice(1)))).toEqual(Array.from({ length: 51 }, (_, n) => n + 1));
});
