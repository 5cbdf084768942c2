/** Sessions without a connection cost open files too, of which the server has few here. */
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { poll } from "../support/poll.ts";
import { speakTo } from "../support/speaker.ts";
import { readStats } from "../support/stats.ts";
import { ANSWERED_WITHIN_MS, besideBystanders } from "./bystanders.ts";
import { hasFiles, limited } from "./limited.ts";
import { OPCODE, openRaw, shortFrame } from "./raw-socket.ts";
import { scaled, TIMEOUT_MS } from "./scale.ts";
import { isServing } from "./serving.ts";

const SESSIONS = scaled(600, 4_000);
const BYSTANDERS = 4;
const WAITERS = scaled(600, 1_000);

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
    await poll("all sessions to end", 45_000, async () =>
      (await readStats(observer)).connections === BYSTANDERS + 1 ? true : undefined,
    );
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  hasFiles(story);
  expect(server.stderr).not.toContain("Too many open files");
  await isServing(server);
});

/** An HTTP client with few connections, which it keeps. */
function keptAlive(port: number, connections: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  onTestFinished(() => agent.destroy());
  return async (method: string, path: string, headers: Record<string, string> = {}, body = "") => {
    const asked = request({ agent, port, host: "127.0.0.1", method, path, headers });
    asked.end(body);
    const [reply] = (await once(asked, "response")) as [IncomingMessage];
    return { status: reply.statusCode, body: await text(reply) };
  };
}

it(`${SESSIONS} HTTP sessions over a few connections are all opened, kept and ended`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const story = await limited();
  const ask = keptAlive(story.httpPort, 4);
  const { slowestMs, lost } = await besideBystanders(story, async () => {
    const ids: string[] = [];
    const tokens: string[] = [];
    await repeat(SESSIONS, 4, async (index) => {
      const { status, body } = await ask("POST", "/v1/sessions");
      expect([status, body]).toEqual([200, expect.anything()]);
      const { session_id: id } = JSON.parse(body) as { session_id: string };
      ids[index] = id;
      // Some of them hold a lock.
      if (index % 10 !== 0) return;
      const grant = await ask("POST", `/v1/locks/held-${index}`, { "X-Dflockd-Session": id }, '{"lease_ttl_s":300}');
      expect([grant.status, grant.body]).toEqual([200, expect.anything()]);
      tokens[index] = (JSON.parse(grant.body) as { token: string }).token;
    });
    await repeat(SESSIONS, 4, async (index) => {
      expect(await ask("POST", `/v1/sessions/${ids[index]}/ping`)).toEqual({ status: 204, body: "" });
      if (index % 10 !== 0) return;
      const headers = { "X-Dflockd-Session": ids[index] ?? "" };
      const body = JSON.stringify({ token: tokens[index] });
      expect(await ask("POST", `/v1/locks/held-${index}/release`, headers, body)).toEqual({ status: 204, body: "" });
    });
    await repeat(SESSIONS, 4, async (index) => {
      expect(await ask("DELETE", `/v1/sessions/${ids[index]}`)).toEqual({ status: 204, body: "" });
    });
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  hasFiles(story);
  await isServing(story.server);
});

it(`${SESSIONS} HTTP sessions that fall silent end by themselves, and cost nobody a lock`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const story = await limited({ args: ["--http-session-idle-timeout", "4"] });
  const ask = keptAlive(story.httpPort, 4);
  const { slowestMs, lost } = await besideBystanders(story, async () => {
    await repeat(SESSIONS, 4, async () => {
      expect((await ask("POST", "/v1/sessions")).status).toBe(200);
    });
    await poll("all sessions to end", 40_000, async () => {
      const { body } = await ask("GET", "/metrics");
      return /^dflockd_http_sessions 0$/m.test(body) ? true : undefined;
    });
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  hasFiles(story);
  await isServing(story.server);
});

it(`${WAITERS} HTTP sessions whose turn comes at the same moment are not all woken at once`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const story = await limited();
  const ask = keptAlive(story.httpPort, 4);
  const { slowestMs, lost } = await besideBystanders(story, async () => {
    const ids: string[] = [];
    const body = JSON.stringify({ limit: WAITERS, lease_ttl_s: 60 });
    const holder = await story.clients.ws();
    holder.send(Array.from({ length: WAITERS }, (_, index) => `@${index} sl\nshared\n0 ${WAITERS} 600\n`).join(""));
    for (let index = 0; index < WAITERS; index += 1) expect(await holder.next(20_000)).toContain("ok");
    await repeat(WAITERS, 4, async (index) => {
      const opened = await ask("POST", "/v1/sessions");
      const { session_id: id } = JSON.parse(opened.body) as { session_id: string };
      ids[index] = id;
      const reply = await ask("POST", "/v1/semaphores/shared/enqueue", { "X-Dflockd-Session": id }, body);
      expect([reply.status, reply.body]).toEqual([200, expect.stringContaining("queued")]);
    });
    // All slots are free at once.
    holder.close();
    await repeat(WAITERS, 4, async (index) => {
      const headers = { "X-Dflockd-Session": ids[index] ?? "" };
      const reply = await ask("POST", "/v1/semaphores/shared/wait", headers, '{"timeout_s":20}');
      expect([reply.status, reply.body]).toEqual([200, expect.stringContaining("token")]);
    });
  });
  expect(lost).toBe(0);
  expect(slowestMs).toBeLessThan(ANSWERED_WITHIN_MS);
  hasFiles(story);
  await isServing(story.server);
});
