import { describe, expect, it } from "vitest";
import { retold } from "../support/retold.ts";
import { Slots } from "../support/slots.ts";
import { EVERY_WAY, Player } from "./play.ts";
import { readTranscripts } from "./transcript.ts";

const transcripts = [...readTranscripts("relay-asked"), ...readTranscripts("relay-asking")];
const servers = new Slots(8);

describe.each(EVERY_WAY)("a deployment among others, over $transport, on $host.name", { concurrent: true }, (way) => {
  const { host, transport } = way;

  it.each(transcripts)("$id $title", (transcript) =>
    servers.use(() =>
      retold(async () => {
        const player = new Player(transcript, transport);
        await using server = await host.start({ variables: await player.prepare(), hasRelay: true });
        try {
          await player.play(server);
        } finally {
          await player.end();
        }
      }),
    ),
  );
});

it("has all its transcripts", () => {
  expect(transcripts.map(({ id }) => Number(id.slice(1)))).toEqual(Array.from({ length: 26 }, (_, n) => n + 1));
});
