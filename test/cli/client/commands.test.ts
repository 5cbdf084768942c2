/** The client commands as their users run them: real processes against a real server. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../../src/client/index.ts";
import { HOSTS } from "../../support/hosts.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { finish, printed, start, urlOf } from "../processes.ts";
import { eventually } from "../support.ts";

const GRANT = /^token=([0-9a-f]{32})\nfence=([1-9][0-9]*)\nlease=([0-9]+)\n$/;
const TOKEN = "open-sesame";

let server: TestServer;
let folder: string;
let env: Record<string, string>;

beforeAll(async () => {
  server = await startServer({ variables: { AUTH_TOKEN: TOKEN, HTTP_SESSION_IDLE_S: "20" } });
  folder = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  writeFileSync(join(folder, "token"), `${TOKEN}\n`);
  env = { HOLDFAST_URL: urlOf(server), HOLDFAST_TOKEN: TOKEN };
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server.stop();
});

const command = (...args: string[]) => finish(args, env);
const json = async (...args: string[]): Promise<Record<string, unknown>> => {
  const { code, stdout, stderr } = await finish([...args, "--json"], env);
  expect(stderr).toBe("");
  expect(stdout).toMatch(/^[^\n]+\n$/);
  return { code, ...JSON.parse(stdout) };
};
const client = (label?: string) => connect(urlOf(server), { token: TOKEN, ...(label === undefined ? {} : { label }) });

describe.each(HOSTS)("run, with the service on $name", (host) => {
  it("holds the lock while its command runs, hands it to the next in the queue, and passes on the exit code", async () => {
    await using service = await host.start();
    const open = { HOLDFAST_URL: urlOf(service) };
    await using locks = connect(urlOf(service));
    const script = 'echo "$HOLDFAST_KEY"; read line; exit 4';
    await using running = start(["run", "--key", "desk", "--tag", "ada", "--", "sh", "-c", script], open);
    await printed(running, "desk\n");
    expect((await locks.query("desk"))?.held_by[0]?.label).toBe("ada");
    const next = finish(["run", "--key", "desk", "--", "echo", "next"], open);
    await eventually("a waiter", async () => (await locks.query("desk"))?.waiters === 1);
    running.child.stdin?.end();
    expect(await running.exited).toEqual({ code: 4, signal: null });
    expect(await next).toEqual({ code: 0, stdout: "next\n", stderr: "" });
    expect((await locks.query("desk"))?.holders).toBe(0);
  });
});

describe("lock", () => {
  it("prints the grant, holds until standard input ends, and then lets go", async () => {
    await using locks = client();
    await using running = start(["lock", "desk", "--lease", "5", "--label", "ada"], env);
    const [, token = "", fence, lease] = GRANT.exec(await printed(running, /lease=.*\n/)) ?? [];
    expect(BigInt(`0x${token.slice(0, 16)}`).toString()).toBe(fence);
    expect(lease).toBe("5");
    expect((await locks.query("desk"))?.held_by[0]?.label).toBe("ada");
    expect(await locks.tryAcquire("desk")).toBeNull();
    running.child.stdin?.end();
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect((await locks.query("desk"))?.holders).toBe(0);
  });

  it("lets go at Ctrl-C and at SIGTERM, with exit code 0", async () => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      await using running = start(["lock", "chair"], env);
      await printed(running, /lease=.*\n/);
      running.child.kill(signal);
      expect(await running.exited).toEqual({ code: 0, signal: null });
    }
    await using locks = client();
    expect((await locks.query("chair"))?.holders).toBe(0);
  });

  it("is told when its lock is released by another with the token: 76", async () => {
    await using running = start(["lock", "lamp", "--json"], env);
    const { token, ...rest } = JSON.parse(await printed(running, "\n")) as { token: string };
    expect(rest).toEqual({
      ok: true,
      key: "lamp",
      fence: expect.any(String),
      lease_s: 33,
      waited_s: expect.any(Number),
    });
    expect(await command("release", "lamp", token)).toEqual({ code: 0, stdout: "released lamp\n", stderr: "" });
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stdout.split("\n")[1]).toBe('{"ok":false,"error":"lost","message":"lost lamp: released"}');
  });

  it("runs a command like run --key", async () => {
    const ran = await command("lock", "table", "--", "sh", "-c", 'echo "$HOLDFAST_KEY"; exit 4');
    expect(ran).toEqual({ code: 4, stdout: "table\n", stderr: "" });
  });

  it("is busy after its timeout: 75", async () => {
    await using locks = client("ada");
    await using _lock = await locks.acquire("sofa");
    expect(await json("lock", "sofa", "--timeout", "0")).toEqual({
      code: 75,
      ok: false,
      error: "busy",
      message: expect.stringMatching(/^busy sofa: held by ada for [0-9]+ s$/),
    });
  });

  it("a name that would take over the terminal is shown escaped", async () => {
    await using locks = client();
    await using _lock = await locks.acquire("\u001b[2Jevil");
    const { stderr } = await command("lock", "\u001b[2Jevil", "--timeout", "0");
    expect(stderr).toMatch(/^busy \\u\{1b\}\[2Jevil/);
  });
});

describe("release and renew", () => {
  it("renew starts the lease again, and a token that holds nothing is 76", async () => {
    await using locks = client();
    const lock = await locks.acquire("book", { lease: 30_000 });
    expect(await command("renew", "book", lock.token, "--lease", "90")).toEqual({
      code: 0,
      stdout: "renewed book for 90 s\n",
      stderr: "",
    });
    expect((await locks.query("book"))?.held_by[0]?.lease_expires_in_s).toBeGreaterThan(80);
    await lock.release();
    for (const name of ["renew", "release"]) {
      expect(await json(name, "book", lock.token)).toMatchObject({ code: 76, error: "not_held" });
    }
  });

  it("leave no session behind", async () => {
    await using locks = client();
    const lock = await locks.acquire("leaflet");
    const before = await locks.stats();
    await json("renew", "leaflet", lock.token);
    await json("release", "leaflet", lock.token);
    await eventually(
      "as many sessions as before",
      async () => (await locks.stats()).connections === before.connections,
    );
  });

  it("work for semaphores, and with tickets for one kind only", async () => {
    await using locks = client();
    const slot = await locks.acquire("magazine", { limit: 2 });
    const { ticket } = await json("ticket", "magazine", "--operations", "semaphore");
    expect(await json("renew", "magazine", slot.token, "--token", String(ticket))).toMatchObject({
      code: 0,
      lease_s: 33,
    });
    const foreign = await json("ticket", "other", "--operations", "semaphore");
    expect(await json("release", "magazine", slot.token, "--token", String(foreign.ticket))).toMatchObject({
      code: 77,
    });
    expect(await json("release", "magazine", slot.token, "--token", String(ticket))).toMatchObject({ code: 0 });
    expect((await slot.lost).reason).toBe("released");
  });
});

describe("enqueue and wait", () => {
  it("a place outlives the process that took it, and is waited for by another", async () => {
    const ada = await json("enqueue", "printer");
    expect(ada).toMatchObject({ code: 0, ok: true, state: "acquired", key: "printer", lease_s: 33 });
    const queued = await command("enqueue", "printer", "--label", "bob", "--lease", "10");
    const [, session = ""] = /^state=queued\nsession=([0-9a-f]{32})\n$/.exec(queued.stdout) ?? [];
    await using waiting = start(["wait", "printer", "--session", session, "--timeout", "30"], env);
    await using locks = client();
    await eventually("bob to wait", async () => (await locks.query("printer"))?.queue[0]?.timeout_in_s);
    await command("release", "printer", String(ada.token), "--session", String(ada.session));
    expect(await waiting.exited).toEqual({ code: 0, signal: null });
    expect(GRANT.exec(waiting.stdout)?.[3]).toBe("10");
    expect((await locks.query("printer"))?.held_by[0]?.label).toBe("bob");
    expect(await command("release", "--session", session)).toMatchObject({
      code: 0,
      stdout: `ended session ${session}\n`,
    });
    expect((await locks.query("printer"))?.holders).toBe(0);
  });

  it("the output of enqueue can be read by a shell", async () => {
    const { stdout } = await command("enqueue", "shelf");
    const words = stdout.trim().split("\n");
    expect(words.every((word) => /^[a-z]+=[a-z0-9]+$/.test(word))).toBe(true);
  });

  it("a wait that is over gives up the place, and is 75; without a place it is 65", async () => {
    await using locks = client();
    await using _lock = await locks.acquire("scanner", { limit: 2 });
    await using _other = await locks.acquire("scanner", { limit: 2 });
    const { session } = await json("enqueue", "scanner", "--limit", "2");
    const wait = () => json("wait", "scanner", "--limit", "2", "--session", String(session), "--timeout", "0.1");
    expect(await wait()).toMatchObject({ code: 75, error: "busy" });
    expect((await locks.query("scanner"))?.waiters).toBe(0);
    expect(await wait()).toMatchObject({ code: 65, error: "not_enqueued" });
  });

  it("a session that is gone is 76, for every command that names it", async () => {
    const gone = "0".repeat(32);
    for (const args of [["wait", "k"], ["enqueue", "k"], ["renew", "k", gone], ["release", "k", gone], ["ping"]]) {
      expect(await json(...args, "--session", gone)).toMatchObject({ code: 76, error: "session_gone" });
    }
  });
});

describe("looking", () => {
  it("ls, stats and top show holders and queues; a prefix narrows them", async () => {
    await using ada = client("ada");
    await using bob = client("bob");
    await using _lock = await ada.acquire("shop/till");
    await using _slot = await ada.acquire("shop/van", { limit: 3 });
    const waiting = bob.acquire("shop/till", { timeout: 30_000 });
    await eventually("bob to wait", async () => (await ada.query("shop/till"))?.waiters === 1);

    const listed = await command("ls", "shop/");
    expect(listed.stdout.split("\n")).toEqual([
      expect.stringMatching(/^KEY +HELD +WAITING +LEASE +HOLDER$/),
      expect.stringMatching(/^shop\/till +1\/1 +1 +[0-9]+ s +ada$/),
      expect.stringMatching(/^shop\/van +1\/3 +0 +[0-9]+ s +ada$/),
      "",
    ]);
    const [till, van] = (await json("ls", "shop/")).keys as Record<string, unknown>[];
    expect(till).toMatchObject({
      key: "shop/till",
      limit: 1,
      holders: 1,
      waiters: 1,
      queue: [{ position: 1, label: "bob" }],
    });
    expect(van).toMatchObject({
      key: "shop/van",
      limit: 3,
      holders: 1,
      held_by: [{ fence: expect.stringMatching(/^[0-9]+$/) }],
    });
    expect(await command("ls", "nothing/")).toEqual({ code: 0, stdout: "", stderr: "" });

    expect((await command("stats", "shop/")).stdout).toMatch(
      /^connections +[0-9]+\nlocks held +1\nsemaphores in use +1\nslots held +1\nwaiters +1\n/,
    );
    expect(await json("stats", "shop/")).toMatchObject({ ok: true, locks: [{ key: "shop/till", waiters: 1 }] });

    const top = await command("top", "shop/");
    expect(top.stdout).toMatch(
      /^holdfast http:\/\/127.0.0.1:[0-9]+ shop\/\*\n[0-9]+ connections, 2 keys, 2 held, 1 waiting, /,
    );
    expect(top.stdout).toMatch(
      /\nshop\/till {2}1\/1 held, 1 waiting\n {2}● +[0-9]+s \[=+ *\] ada, held [0-9]+s\n {4}1\. bob, waiting [0-9]+s\n/,
    );
    expect(top.stdout).not.toContain("\u001b");
    expect(await json("top", "shop/")).toMatchObject({ ok: true, is_complete: true, keys: [{ key: "shop/till" }, {}] });
    await _lock.release();
    await (await waiting).release();
  });

  it("ping says that the server is there", async () => {
    expect((await command("ping")).stdout).toMatch(new RegExp(`^ok ${urlOf(server)} [0-9.]+ ms\n$`));
    expect(await json("ping")).toEqual({ code: 0, ok: true, url: urlOf(server), ms: expect.any(Number) });
  });

  it("--quiet prints nothing, also with --json", async () => {
    expect(await command("ping", "-q", "--json")).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(await command("renew", "k", "0".repeat(32), "-q")).toEqual({ code: 76, stdout: "", stderr: "" });
  });
});

describe("tokens and tickets", () => {
  it("a token comes from a flag, a file or the environment", async () => {
    const url = { HOLDFAST_URL: urlOf(server) };
    for (const args of [
      ["--token", TOKEN],
      ["--token-file", join(folder, "token")],
    ]) {
      expect(await finish(["ls", "none/", ...args], url)).toEqual({ code: 0, stdout: "", stderr: "" });
      expect(await finish(["run", "--key", "k", ...args, "--", "true"], url)).toMatchObject({ code: 0, stderr: "" });
    }
    const missing = await finish(["ls", "--token-file", join(folder, "none")], url);
    expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining("--token-file: cannot read") });
  });

  it("a ticket opens what it names and nothing else: 77", async () => {
    const issued = await command("ticket", "user-42/*", "--operations", "lock", "--ttl", "60");
    const ticket = issued.stdout.trim();
    expect(issued.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const as = (...args: string[]) => finish([...args, "--token", ticket, "--url", urlOf(server)]);
    expect(await as("lock", "user-42/draft")).toMatchObject({ code: 0, stderr: "" });
    expect(await as("ping")).toMatchObject({ code: 0, stderr: "" });
    for (const args of [["lock", "deploy"], ["ls"], ["ticket", "x"], ["enqueue", "deploy"]]) {
      expect(await as(...args)).toMatchObject({ code: 77, stderr: expect.stringContaining("does not allow this") });
    }
    expect(await json("ticket", "k", "--ttl", "5")).toMatchObject({ ok: true, expires_in_s: 5 });
  });

  it("tokens never show in complaints", async () => {
    for (const args of [
      ["ls", "--token", "hunter2\nhunter2"],
      ["ls", "--tokn=hunter2"],
      ["ls", "--url", "http://u:hunter2@x"],
    ]) {
      const { code, stdout, stderr } = await finish(args);
      expect(code).toBe(2);
      expect(stdout + stderr).not.toContain("hunter2");
    }
  });
});
