import { readdirSync, readFileSync } from "node:fs";
import { afterAll, describe, expect, it, test } from "vitest";
import { HOSTS, type Host } from "../support/hosts.ts";
import { playTranscript } from "../support/play.ts";
import { retold } from "../support/retold.ts";
import type { TestServer } from "../support/server.ts";
import { Slots } from "../support/slots.ts";
import { parseTranscripts, type Transcript, type Transport, type Variables } from "../transcripts/parse.ts";

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
    "an unknown host": "host Deno\nA> ping\\n_\\n_\\n\nA< ok\\n\n",
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

/** One server for all plays of a configuration: it starts with the first of them and stops after the last. */
class SharedServer {
  readonly #host: Host;
  readonly #variables: Variables;
  #playsLeft = 0;
  #starting: Promise<TestServer> | undefined;

  constructor(host: Host, variables: Variables) {
    this.#host = host;
    this.#variables = variables;
  }

  expectPlay(): void {
    this.#playsLeft += 1;
  }

  async play(transcript: Transcript, transport: Transport): Promise<void> {
    this.#starting ??= this.#host.start({ variables: this.#variables });
    const { tcpPort, httpPort } = await this.#starting;
    const restart = () => Promise.reject(new Error("a shared server is not restarted"));
    try {
      await playTranscript(transcript, transport, { tcpPort, httpPort, restart });
    } finally {
      this.#playsLeft -= 1;
      if (this.#playsLeft === 0) await this.stop();
    }
  }

  async stop(): Promise<void> {
    await (await this.#starting)?.stop();
  }
}

const ownServers = new Slots(4);
const sharedPlays = new Slots(16);

describe.each(HOSTS)("on $name the service answers as written", { concurrent: true, timeout: 80_000 }, (host) => {
  const shared = new Map<string, SharedServer>();
  afterAll(() => Promise.all(Array.from(shared.values(), (server) => server.stop())));

  /** Each transport has servers of its own, since both plays of a case use the same keys. */
  function sharedBy({ variables }: Transcript, transport: Transport): SharedServer {
    const configuration = JSON.stringify([transport, Object.entries(variables).sort()]);
    const server = shared.get(configuration) ?? new SharedServer(host, variables);
    shared.set(configuration, server);
    return server;
  }

  async function playAlone(transcript: Transcript, transport: Transport): Promise<void> {
    await using server = await host.start({ variables: transcript.variables });
    await playTranscript(transcript, transport, server);
  }

  for (const transcript of transcripts.filter(({ hosts }) => hosts.includes(host.name))) {
    for (const transport of transcript.transports) {
      const title = `${transcript.id} ${transcript.title} (${transport})`;
      if (transcript.needsOwnServer) {
        test(title, () => ownServers.use(() => retold(() => playAlone(transcript, transport))));
        continue;
      }
      const server = sharedBy(transcript, transport);
      server.expectPlay();
      test(title, () =>
        sharedPlays.use(() =>
          retold((attempt) => (attempt === 1 ? server.play(transcript, transport) : playAlone(transcript, transport))),
        ),
      );
    }
  }
});
