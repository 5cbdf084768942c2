/** Sessions without a connection cost open files too, of which the server has few here. */
import { expect, it } from "vitest";
import { poll } from "../support/poll.ts";
import { speakTo } from "../support/speaker.ts";
import { readStats } from "../support/stats.ts";
import { besideBystanders } from "./bystanders.ts";
import { hasFiles, limited } from "./limited.ts";
import { OPCODE, openRaw, shortFrame } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const SESSIONS = scaled(600, 4_000);
const BYSTANDERS = 4;

/** Runs a task so many times, some at a time. */
async function repeat(times: number, atOnce: number, task: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < times) await task(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, work));
}

/** Opens a session that outlives its socket, and resets the socket. Returns what takes the session up again. */
async function abandon(httpPort: number): Promise<string> {
  const socket = await openRaw(httpPort);
  socket.write(shortFrame(OPCODE.text, "@r session\n_\nresume\n"));
  let heard = "";
  for await (const bytes of socket as AsyncIterable<Buffer>) {
    heard += bytes.toString("latin1");
    const [, credential] = /@r ok ([0-9a-f.]{65}) /.exec(heard) ?? [];
    if (credential) {
      socket.resetAndDestroy();
      return credential;
    }
  }
  throw new Error(`no credential: ${heard}`);
}

it(`${SESSIONS} sessions that have lost their sockets cost nobody a lock or a connection, can be resumed, and end`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const story = await limited();
  const { clients, httpPort, server } = story;
  const { slowestMs, lost } = await besideBystanders(story, async () => {
    const credentials: string[] = [];
    await repeat(SESSIONS, 6, async (index) => {
      credentials[index] = await abandon(httpPort);
    });
    for (const credential of credentials.slice(-20)) {
      const back = await speakTo(httpPort, credential);
      back.say("@p ping");
      await back.hears("@p ok");
      back.socket.close();
    }
    const observer = await clients.ws();
    await poll("all sessions to end", 30_000, async () =>
      (await readStats(observer)).connections === BYSTANDERS + 1 ? true : undefined,
    );
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(2_000);
  hasFiles(story);
  expect(server.stderr).not.toContain("Too many open files");
  await isServing(server);
});
