/** `holdfast mcp` with a real server: what agents can rely on. */

import { setTimeout as pause } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect, type KeyReport } from "../../../src/client/index.ts";
import { HOSTS } from "../../support/hosts.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { finish, urlOf } from "../processes.ts";
import { eventually, freePort } from "../support.ts";
import { Agent } from "./agent.ts";

const GRACE_S = 2;
const ADMIN = "let-me-in";

let server: TestServer;
let url: string;

beforeAll(async () => {
  server = await startServer({ variables: { RESUME_GRACE_S: String(GRACE_S), ADMIN_TOKEN: ADMIN } });
  url = urlOf(server);
});
afterAll(() => server.stop());

async function reportOf(key: string, at = url): Promise<KeyReport | null> {
  await using locks = connect(at);
  return await locks.query(key);
}

const waitersOf = (key: string, count: number, at = url) =>
  eventually(`${count} waiters for ${key}`, async () => ((await reportOf(key, at))?.waiters ?? 0) === count, 30_000);
const freed = (key: string) =>
  eventually(`${key} to be free`, async () => ((await reportOf(key))?.holders ?? 0) === 0, 30_000);

async function steal(key: string): Promise<void> {
  const fence = (await reportOf(key))?.held_by[0]?.fence;
  const headers = { Authorization: `Bearer ${ADMIN}` };
  const response = await fetch(`${url}/v1/admin/holders/${key}?token_fence=${fence}`, { method: "DELETE", headers });
  expect(response.ok).toBe(true);
}

describe.each(HOSTS)("with the service on $name", (host) => {
  it("J17: a second agent waits in line for what the first holds, and has it once that is killed", async () => {
    await using service = await host.start();
    await using ada = await Agent.start(urlOf(service), { name: "ada" });
    await using bob = await Agent.start(urlOf(service), { name: "bob" });
    expect(ada.tools.map(({ name }) => name)).toEqual(["acquire", "release", "who", "list"]);
    const first = await ada.call("acquire", { key: "schema.sql", reason: "adding a column" });
    expect(first.document).toMatchObject({
      key: "schema.sql",
      status: "acquired",
      fence: expect.stringMatching(/^\d+$/),
    });
    const waiting = bob.begin("acquire", { key: "schema.sql", wait_seconds: 60 });
    await eventually("a waiter", async () => (await ada.call("who", { key: "schema.sql" })).document?.waiters === 1);
    ada.process.child.kill("SIGTERM");
    expect(await ada.process.exited).toEqual({ code: 0, signal: null });
    const second = await bob.answerOf("acquire", waiting);
    expect(second.document?.status).toBe("acquired");
    expect(BigInt(String(second.document?.fence))).toBeGreaterThan(BigInt(String(first.document?.fence)));
    const { document, texts } = await bob.call("release", { key: "schema.sql" });
    expect({ document, texts }).toEqual({
      document: { key: "schema.sql", released: true },
      texts: ["Released schema.sql."],
    });
  });
});

describe("what an agent holds is given back", () => {
  it("when its program closes the pipe: not only after the grace of a lost connection", async () => {
    await using patient = await startServer({ variables: { RESUME_GRACE_S: "600" } });
    const at = urlOf(patient);
    await using ada = await Agent.start(at);
    await using bob = await Agent.start(at);
    await ada.call("acquire", { key: "pipe" });
    const waiting = bob.begin("acquire", { key: "pipe", wait_seconds: 300 });
    await waitersOf("pipe", 1, at);
    ada.process.child.stdin?.end();
    expect(await ada.process.exited).toEqual({ code: 0, signal: null });
    expect((await bob.answerOf("acquire", waiting)).document?.status).toBe("acquired");
    expect(ada.process.stderr).toBe("");
  });

  it("after the grace when it is killed", async () => {
    await using ada = await Agent.start(url);
    await ada.call("acquire", { key: "killed" });
    ada.process.child.kill("SIGKILL");
    await ada.process.exited;
    await freed("killed");
  });

  it("and a wait that is under way leaves the queue", async () => {
    await using ada = await Agent.start(url);
    await using bob = await Agent.start(url);
    await ada.call("acquire", { key: "left" });
    bob.begin("acquire", { key: "left", wait_seconds: 3_600 });
    await waitersOf("left", 1);
    bob.process.child.stdin?.end();
    expect(await bob.process.exited).toEqual({ code: 0, signal: null });
    expect(await reportOf("left")).toMatchObject({ holders: 1, waiters: 0 });
  });
});

it("a cancelled acquire gives up its place and is not answered", async () => {
  await using ada = await Agent.start(url);
  await using bob = await Agent.start(url);
  await ada.call("acquire", { key: "cancelled" });
  const id = bob.begin("acquire", { key: "cancelled", wait_seconds: 600 });
  await waitersOf("cancelled", 1);
  bob.notify("notifications/cancelled", { requestId: id, reason: "the user pressed escape" });
  await waitersOf("cancelled", 0);
  await ada.call("release", { key: "cancelled" });
  expect((await bob.call("list", { prefix: "cancelled" })).document).toEqual({
    keys: [],
    is_complete: true,
    yours: [],
  });
  expect(bob.messages.some((message) => message.id === id)).toBe(false);
});

it("an acquire that is cancelled before it is answered takes nothing", async () => {
  await using fresh = await startServer();
  await using ada = await Agent.start(urlOf(fresh));
  const keys = new Map<number, string>();
  for (let round = 0; round < 20; round += 1) {
    const key = `cut/${round}`;
    const id = ada.begin("acquire", { key });
    keys.set(id, key);
    // Somewhere between before it is asked for and after it is granted.
    await pause(round);
    ada.notify("notifications/cancelled", { requestId: id });
  }
  await eventually("what was not told to be given back", async () => {
    const { document = {} } = await ada.call("list", { prefix: "cut/" });
    const told = ada.messages.flatMap(({ id = 0 }) => keys.get(id) ?? []);
    return JSON.stringify(document.yours) === JSON.stringify(told) && (document.keys as []).length === told.length;
  });
});

it("a lock is renewed for as long as the process lives, and a waiter is told its place meanwhile", async () => {
  await using short = await startServer({ variables: { DEFAULT_LEASE_TTL_S: "2" } });
  await using ada = await Agent.start(urlOf(short), { args: ["--label", "ada"] });
  await using bob = await Agent.start(urlOf(short), { args: ["--label", "bob"] });
  const { document } = await ada.call("acquire", { key: "long", reason: "a long migration" });
  const waiting = bob.begin("acquire", { key: "long", wait_seconds: 600 }, "the-token");
  const progress = await eventually(
    "progress",
    () => bob.messages.find(({ method }) => method === "notifications/progress"),
    60_000,
  );
  expect(progress.params).toMatchObject({
    progressToken: "the-token",
    message: expect.stringMatching(/^waiting for long: place 1 of 1, held by ada: a long migration for \d+ s$/),
  });
  expect(progress.params?.progress).toBeGreaterThan(2);
  expect((await ada.call("who", { key: "long" })).document?.held_by).toMatchObject([
    { holder: "ada", reason: "a long migration", is_you: true, fence: document?.fence },
  ]);
  await ada.call("release", { key: "long" });
  expect((await bob.answerOf("acquire", waiting)).document?.status).toBe("acquired");
});

describe("an agent is told", () => {
  it("who holds a busy key, since when and what for, and that it has left the queue", async () => {
    await using ada = await Agent.start(url, { args: ["--label", "ada"] });
    await using bob = await Agent.start(url, { args: ["--label", "bob"] });
    await ada.call("acquire", { key: "busy", reason: "deploying 1.4" });
    const { isError, texts, document } = await bob.call("acquire", { key: "busy", wait_seconds: 0 });
    expect(isError).toBe(true);
    expect(texts).toEqual([
      expect.stringMatching(
        /^Busy: you do not hold busy\. It is held by ada since 20\d\d-\S+Z \(\d+ s\): deploying 1\.4; nobody waits\./,
      ),
    ]);
    expect(document).toMatchObject({
      status: "busy",
      waiters: 0,
      held_by: [{ holder: "ada", reason: "deploying 1.4" }],
    });
    expect(document).not.toHaveProperty("fence");
    expect((await reportOf("busy"))?.waiters).toBe(0);
  });

  it("that it holds the key already, or waits for it already", async () => {
    await using ada = await Agent.start(url, { args: ["--label", "ada"] });
    await using bob = await Agent.start(url);
    const { document } = await ada.call("acquire", { key: "again", reason: "the first time" });
    const second = await ada.call("acquire", { key: "again" });
    expect(second.isError).toBe(true);
    expect(second.document).toEqual({ key: "again", status: "already_held", fence: document?.fence });
    expect(second.texts[0]).toMatch(/^This server holds again since \S+: the first time\. If that was not you/);
    const waiting = bob.begin("acquire", { key: "again", wait_seconds: 60 });
    await waitersOf("again", 1);
    const other = await bob.call("acquire", { key: "again" });
    expect(other).toMatchObject({ isError: true, texts: [expect.stringContaining("another call waits for again")] });
    await ada.call("release", { key: "again" });
    expect((await bob.answerOf("acquire", waiting)).document?.status).toBe("acquired");
  });

  it("who holds and who waits, and what it holds itself", async () => {
    await using ada = await Agent.start(url, { args: ["--label", "ada"] });
    await using bob = await Agent.start(url, { args: ["--label", "bob"] });
    expect(await ada.call("who", { key: "look/1" })).toEqual({
      isError: false,
      texts: ["look/1 is free; nobody waits."],
      document: { key: "look/1", limit: 1, held_by: [], waiters: 0, queue: [] },
    });
    await ada.call("acquire", { key: "look/1", reason: "one" });
    await bob.call("acquire", { key: "look/2" });
    const waiting = bob.begin("acquire", { key: "look/1", wait_seconds: 60, reason: "two" });
    await waitersOf("look/1", 1);
    const who = await bob.call("who", { key: "look/1" });
    expect(who.document).toMatchObject({
      held_by: [{ holder: "ada", reason: "one", is_you: false }],
      waiters: 1,
      queue: [{ position: 1, holder: "bob", reason: "two", is_you: true }],
    });
    expect(who.texts[0]).toMatch(/^look\/1 is held by ada since .*: one; 1 waiting\.\n1\. bob \(waiting \d+ s\): two$/);
    const list = await bob.call("list", { prefix: "look/" });
    expect(list.document).toMatchObject({
      keys: [
        { key: "look/1", waiters: 1, held_by: [{ holder: "ada" }] },
        { key: "look/2", waiters: 0, held_by: [{ holder: "bob", is_you: true }] },
      ],
      is_complete: true,
      yours: ["look/2"],
    });
    await ada.call("release", { key: "look/1" });
    await bob.answerOf("acquire", waiting);
  });

  it("that a lock is lost, by a notification at once and with the next answer, once", async () => {
    await using ada = await Agent.start(url);
    await ada.call("acquire", { key: "stolen" });
    await steal("stolen");
    const notice = await eventually("the notification", () =>
      ada.messages.find(({ method }) => method === "notifications/message"),
    );
    const text = expect.stringMatching(/^LOST stolen at 20\S+Z: an administrator took it\. Another client may hold it/);
    expect(notice.params).toMatchObject({ level: "warning", logger: "holdfast", data: text });
    const next = await ada.call("list", { prefix: "stolen" });
    expect(next.texts[0]).toEqual(text);
    expect(next.document).toMatchObject({ yours: [], lost: [{ key: "stolen", reason: "stolen" }] });
    expect((await ada.call("acquire", { key: "stolen" })).texts).toEqual([expect.stringMatching(/^Acquired stolen /)]);
  });

  it("that there is nothing to release", async () => {
    await using ada = await Agent.start(url);
    const { isError, texts } = await ada.call("release", { key: "nothing" });
    expect({ isError, texts }).toEqual({
      isError: true,
      texts: ["You do not hold nothing: there is nothing to release."],
    });
  });

  it("that a key is a semaphore", async () => {
    await using locks = connect(url);
    await using _slot = await locks.acquire("slots", { limit: 3 });
    await using ada = await Agent.start(url);
    const { isError, texts } = await ada.call("acquire", { key: "slots" });
    expect({ isError, texts }).toEqual({
      isError: true,
      texts: ["slots is in use as a semaphore, with another limit than 1: use another key"],
    });
  });

  it("that there is no server, and how to start one", async () => {
    await using ada = await Agent.start(`http://127.0.0.1:${await freePort()}`);
    for (const [tool, args] of [
      ["acquire", { key: "k" }],
      ["who", { key: "k" }],
      ["list", {}],
    ] as const) {
      const { isError, texts } = await ada.call(tool, args);
      expect(isError).toBe(true);
      expect(texts).toEqual([
        expect.stringMatching(/^no server at \S+ \(connection refused\): start one with `holdfast serve`/),
      ]);
    }
  });

  it("that the token is missing or refused", async () => {
    await using closed = await startServer({ variables: { AUTH_TOKEN: "open-sesame" } });
    await using none = await Agent.start(urlOf(closed));
    expect((await none.call("acquire", { key: "k" })).texts[0]).toMatch(/^the server at \S+ wants a token/);
    await using wrong = await Agent.start(urlOf(closed), { args: ["--token", "open-barley"] });
    expect((await wrong.call("list", {})).texts[0]).toMatch(/^the server at \S+ refused the token/);
    await using right = await Agent.start(urlOf(closed), { args: ["--token", "open-sesame"] });
    expect((await right.call("acquire", { key: "k" })).isError).toBe(false);
  });

  it("that a release was not confirmed, if the server is gone", async () => {
    await using gone = await startServer();
    await using ada = await Agent.start(urlOf(gone));
    await ada.call("acquire", { key: "gone" });
    await gone.kill9();
    const { isError, texts, document } = await ada.call("release", { key: "gone" });
    expect({ isError, document }).toEqual({ isError: false, document: { key: "gone", released: false } });
    expect(texts[0]).toMatch(/did not confirm the release of gone: it is free within 33 s\.$/);
  });
});

describe("bad input", () => {
  const WRONG: readonly (readonly [tool: string, args: object, problem: string])[] = [
    ["acquire", {}, "acquire: key must be a text"],
    ["acquire", { key: 7 }, "acquire: key must be a text"],
    ["acquire", { key: "" }, "acquire: key must not be empty"],
    ["acquire", { key: "two words" }, "acquire: key must be 1 to 256 bytes without blanks and line breaks"],
    ["acquire", { key: "é".repeat(129) }, "acquire: key must be 1 to 256 bytes"],
    ["acquire", { key: "bad", wait_seconds: "soon" }, "acquire: wait_seconds must be a number"],
    ["acquire", { key: "bad", wait_seconds: -1 }, "acquire: wait_seconds must be at least 0"],
    ["acquire", { key: "bad", wait_seconds: 1e9 }, "acquire: wait_seconds must be at most 3600"],
    ["acquire", { key: "bad", reason: 1 }, "acquire: reason must be a text"],
    [
      "acquire",
      { key: "bad", timeout: 1 },
      'acquire: there is no argument "timeout" (there are: key, wait_seconds, reason)',
    ],
    ["release", { name: "bad" }, "release: key must be a text"],
    ["who", { keys: ["bad"] }, "who: key must be a text"],
    ["list", { prefix: 1 }, "list: prefix must be a text"],
  ];

  it("is answered with what is wrong, and leaves nothing behind", async () => {
    await using fresh = await startServer();
    await using ada = await Agent.start(urlOf(fresh));
    for (const [name, args, problem] of WRONG) {
      const { isError, texts, document } = await ada.call(name, args);
      expect({ isError, document }, JSON.stringify(args)).toEqual({ isError: true, document: undefined });
      expect(texts).toEqual([expect.stringContaining(problem)]);
    }
    await using locks = connect(urlOf(fresh));
    const { connections, locks: held, idle_locks } = await locks.stats();
    expect({ connections, held, idle_locks }).toEqual({ connections: 1, held: [], idle_locks: [] });
  });

  it("that no tool could understand is refused by the protocol, and the next call works", async () => {
    await using ada = await Agent.start(url);
    expect(await ada.ask("tools/call", { name: "lock", arguments: {} })).toMatchObject({
      error: {
        code: -32602,
        message: expect.stringContaining('no tool "lock": there are acquire, release, who, list'),
      },
    });
    expect(await ada.ask("tools/call", { name: "who", arguments: "deploy" })).toHaveProperty("error");
    expect(await ada.ask("no/such/method", {})).toMatchObject({ error: { code: -32601 } });
    ada.write("this is no JSON\n{}\n\n");
    expect((await ada.call("who", { key: "still-there" })).isError).toBe(false);
    expect(ada.process.stderr).toMatch(/^holdfast: MCP: /);
  });

  it("on the command line is told on standard error: standard output is for the protocol", async () => {
    for (const args of [["--url", "ftp://x"], ["--lable", "x"], ["extra"], ["--label", ""]]) {
      const { code, stdout, stderr } = await finish(["mcp", ...args]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
      expect(stderr).toMatch(/^holdfast: .*\nusage: holdfast mcp /);
    }
  });
});

it("the client of the official SDK is served", async () => {
  const command = new URL("../../../dist/holdfast.js", import.meta.url).pathname;
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [command, "mcp", "--url", url],
    stderr: "ignore",
  });
  const client = new Client({ name: "sdk", version: "1.0.0" });
  await client.connect(transport);
  try {
    expect((await client.listTools()).tools).toHaveLength(4);
    const acquired = await client.callTool({ name: "acquire", arguments: { key: "sdk" } });
    expect(acquired.structuredContent).toMatchObject({ status: "acquired" });
    expect((await reportOf("sdk"))?.held_by[0]?.label).toMatch(/^sdk .*@/);
  } finally {
    await client.close();
  }
  await freed("sdk");
});
