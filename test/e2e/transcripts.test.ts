import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, test, vi } from "vitest";
import { playTranscript, type Stage } from "../support/play.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { Slots } from "../support/slots.ts";
import { TRANSPORTS } from "../support/wire-client.ts";
import { parseTranscripts, type Transport } from "../transcripts/parse.ts";

// Cases spend their time sleeping, so many can be under way at once; the slots below say how many.
vi.setConfig({ maxConcurrency: 300 });

const FOLDER = new URL("../transcripts/", import.meta.url);
const transcripts = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".transcript"))
  .flatMap((file) => parseTranscripts(file, readFileSync(new URL(file, FOLDER), "utf8")));

describe("the transcripts", () => {
  it("are all there, each once", () => {
    const ids = transcripts.map(({ id }) => Number(id.slice(1))).sort((a, b) => a - b);
    expect(ids).toEqual(Array.from({ length: 128 }, (_, index) => index + 1));
  });

  for (const [mistake, text] of Object.entries({
    "an unknown line": "A send ping\\n_\\n_\\n\nA< ok\\n\n",
    "a stray blank before the session": " A> ping\\n_\\n_\\n\nA< ok\\n\n",
    "an unknown escape": "A> ping\\q\nA< ok\\n\n",
    "an unknown placeholder": "A> ping\\n_\\n_\\n\nA< ok {tokn:a}\\n\n",
    "a malformed repetition": "A> {rep:x,}\\n\nA< ok\\n\n",
    "an unknown variable": "config READ_TIMEOUT=1\nA> ping\\n_\\n_\\n\nA< ok\\n\n",
    "a setting after the first step": "A> ping\\n_\\n_\\n\nfresh\nA< ok\\n\n",
    "an unknown transport": "transport udp\nA> ping\\n_\\n_\\n\nA< ok\\n\n",
    "an expected line without its end": "A> ping\\n_\\n_\\n\nA< ok\n",
    "a token sent before it was received": "A> r\\nk\\n{token:a}\\n\nA< ok\\n\n",
    "a comparison with a token never received": "A> ping\\n_\\n_\\n\nA< ok\\n\nassert a < b\n",
    "a session that is read before it connects": "A> ping\\n_\\n_\\n\nB< ok\\n\n",
    "a session that is used after its close": "A> ping\\n_\\n_\\n\nA< ok\\n\nA close\nA> ping\\n_\\n_\\n\n",
    "an empty frame over TCP": "A>text\nA> ping\\n_\\n_\\n\nA< ok\\n\n",
    "seconds that are none": "A> ping\\n_\\n_\\n\nA<none soon\n",
    "a case that expects nothing": "A> ping\\n_\\n_\\n\n",
  })) {
    it(`are refused with ${mistake}`, () => {
      expect(() => parseTranscripts("typo.transcript", `== T01 typo\n${text}`)).toThrow(/^typo\.transcript:[0-9]+: /);
    });
  }
});

describe("the service answers as written", { concurrent: true, timeout: 80_000 }, () => {
  const shared = {} as Record<Transport, TestServer>;
  const ownServers = new Slots(2);
  const sharedPlays = new Slots(12);
  // One shared server per transport, since both plays of a case use the same keys.
  beforeAll(async () => {
    for (const transport of TRANSPORTS) shared[transport] = await startServer();
  });
  afterAll(async () => {
    for (const server of Object.values(shared)) await server.stop();
  });
  const sharedStage = (transport: Transport): Stage => ({
    tcpPort: shared[transport].tcpPort,
    httpPort: shared[transport].httpPort,
    restart: () => Promise.reject(new Error("a shared server is not restarted")),
  });

  for (const transcript of transcripts) {
    for (const transport of transcript.transports) {
      test(`${transcript.id} ${transcript.title} (${transport})`, async () => {
        if (!transcript.needsOwnServer) {
          return sharedPlays.use(() => playTranscript(transcript, transport, sharedStage(transport)));
        }
        await ownServers.use(async () => {
          await using server = await startServer({ variables: transcript.variables });
          await playTranscript(transcript, transport, server);
        });
      });
    }
  }
});
