import { describe, expect, it } from "vitest";
import { startServer } from "../support/server.ts";
import { Slots } from "../support/slots.ts";
import { Player } from "./play.ts";
import { readTranscripts } from "./transcript.ts";

const transcripts = [...readTranscripts("relay-asked"), ...readTranscripts("relay-asking")];

describe.each(["tcp", "ws"] as const)("a deployment among others, over %s", { concurrent: true }, (transport) => {
  const servers = new Slots(3);

  it.each(transcripts)("$id $title", (transcript) =>
    servers.use(async () => {
      const player = new Player(transcript, transport);
      await using server = await startServer({ variables: await player.prepare(), hasRelay: true });
      try {
        await player.play(server);
      } catch (error) {
        throw new Error(`${String(error)}\n${server.log}`, { cause: error });
      } finally {
        await player.end();
      }
    }),
  );
});

it("has all its transcripts", () => {
  expect(transcripts.map(({ id }) => Number(id.slice(1)))).toEqual(Array.from({ length: 26 }, (_, n) => n + 1));
});
