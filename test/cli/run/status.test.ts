/** What `holdfast run` answers with, for keys and for lock files. Cases F47 to F54 of the lock-file protocol are named. */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { connect } from "../../../src/client/index.ts";
import { FileLock } from "../../../src/lockfile/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { finish, printed, start, urlOf } from "../processes.ts";
import { eventually, isRunning } from "../support.ts";

let server: TestServer;
let folder: string;
let x: string;
let env: Record<string, string>;

beforeAll(async () => {
  server = await startServer();
  env = { HOLDFAST_URL: urlOf(server) };
});
afterAll(() => server.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-run-"));
  x = join(folder, "x");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const run = (...args: string[]) => finish(["run", ...args], env, folder);
const leftovers = () => readdirSync(folder);

describe("with a lock file", () => {
  it("passes on the exit code and removes the file (F47)", async () => {
    expect(await run("--file", "x", "--", "sh", "-c", "cat x; exit 7")).toMatchObject({
      code: 7,
      stdout: expect.stringMatching(/^pid=[0-9]+\ntimestamp=[0-9]+\n/),
      stderr: "",
    });
    expect(leftovers()).toEqual([]);
  });

  it("does not start the command while the file is held, and says by whom (F48)", async () => {
    await using lock = new FileLock(x, { tag: "nightly" });
    await lock.tryAcquire();
    const { code, stderr } = await run("--file", "x", "--timeout", "0", "--", "touch", "started");
    expect(code).toBe(75);
    expect(stderr).toMatch(new RegExp(`^busy x pid=${process.pid} since=[0-9]+ tag=nightly\\n$`));
    expect(leftovers()).toEqual(["x"]);
  });

  it("answers 128 + n for a command that a signal has killed (F49)", async () => {
    expect(await run("--file", "x", "--", "sh", "-c", "kill -9 $$")).toMatchObject({ code: 137, stderr: "" });
    expect(leftovers()).toEqual([]);
  });

  it("answers 127 for a command that is not there (F50), and 126 for one that is not executable", async () => {
    const missing = await run("--file", "x", "--", "nosuchcommand");
    expect(missing).toMatchObject({ code: 127, stderr: "holdfast: nosuchcommand: command not found\n" });
    writeFileSync(join(folder, "plain"), "no program");
    chmodSync(join(folder, "plain"), 0o644);
    const plain = await run("--file", "x", "--", "./plain");
    expect(plain).toMatchObject({ code: 126, stderr: "holdfast: ./plain: permission denied\n" });
    expect(leftovers()).toEqual(["plain"]);
  });

  it("ends the command when the file becomes another's, and leaves that file alone (F52)", async () => {
    await using running = start(
      ["run", "--file", "x", "--stale", "3", "--", "sh", "-c", "echo $$; exec sleep 60"],
      env,
      folder,
    );
    const pid = Number(await printed(running, "\n"));
    rmSync(x);
    const others = `pid=77\ntimestamp=${Math.floor(Date.now() / 1000)}\n`;
    writeFileSync(x, others);
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stderr).toMatch(/^lost x: now held by pid=77 since=[0-9]+\n$/);
    expect(isRunning(pid)).toBe(false);
    expect(readFileSync(x, "utf8")).toBe(others);
  });

  it("answers 3 for a path that cannot be one, before anything starts", async () => {
    const { code, stderr } = await run("--file", "no/such/x", "--", "touch", "started");
    expect(code).toBe(3);
    expect(stderr).toMatch(/^error no\/such\/x: [^\n]+\n$/);
    expect(leftovers()).toEqual([]);
  });
});

describe("with a key", () => {
  it("tells the command what it holds, and frees it", async () => {
    const { code, stdout } = await run(
      "--key",
      "told",
      "--tag",
      "ada",
      "--",
      "sh",
      "-c",
      'echo "$HOLDFAST_KEY $HOLDFAST_FENCE"; exit 7',
    );
    expect(code).toBe(7);
    expect(stdout).toMatch(/^told [1-9][0-9]{17,19}\n$/);
    await using locks = connect(urlOf(server));
    expect((await locks.query("told"))?.holders).toBe(0);
  });

  it("is busy while another holds it: 75, and says who", async () => {
    await using locks = connect(urlOf(server), { label: "ada on laptop" });
    await using lock = await locks.acquire("taken");
    const { code, stderr } = await run("--key", "taken", "--timeout", "0.2", "--", "touch", "started");
    expect(code).toBe(75);
    expect(stderr).toMatch(/^busy taken: held by ada on laptop for [0-9]+ s\n$/);
    expect(lock.isHeld).toBe(true);
    expect(await locks.query("taken")).toMatchObject({ waiters: 0 });
    expect(leftovers()).toEqual([]);
  });

  it("waits for its turn without a timeout, and lets as many in as the limit says", async () => {
    await using locks = connect(urlOf(server));
    const slots = [await locks.acquire("pair", { limit: 2 }), await locks.acquire("pair", { limit: 2 })];
    await using running = start(["run", "--key", "pair", "--limit", "2", "--tag", "third", "--", "echo", "in"], env);
    await eventually("the third to queue", async () => (await locks.query("pair"))?.queue[0]?.label === "third");
    expect(running.stdout).toBe("");
    await slots[0]?.release();
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stdout).toBe("in\n");
    const mismatch = await run("--key", "pair", "--limit", "3", "--", "true");
    expect(mismatch).toMatchObject({
      code: 65,
      stderr: expect.stringContaining("is in use with limit 2, not 3: give the same --limit"),
    });
  });
});

describe("with several keys", () => {
  it("holds all of them, tells them in the order given, and frees them", async () => {
    const { code, stdout } = await run(
      "--key",
      "several/b",
      "--key",
      "several/a",
      "--",
      "sh",
      "-c",
      'echo "$HOLDFAST_KEY: $HOLDFAST_FENCE"',
    );
    expect(code).toBe(0);
    const fences = /^several\/b several\/a: ([0-9]+) ([0-9]+)\n$/.exec(stdout)?.slice(1).map(BigInt) ?? [];
    // The first key given is the last one taken.
    expect((fences[0] ?? 0n) > (fences[1] ?? 0n)).toBe(true);
    await using locks = connect(urlOf(server));
    for (const key of ["several/a", "several/b"]) expect((await locks.query(key))?.holders).toBe(0);
  });

  it("gives back what it has when one is busy, and says which", async () => {
    await using locks = connect(urlOf(server), { label: "ada" });
    await using lock = await locks.acquire("partly/b");
    await using running = start(
      ["run", "--key", "partly/b", "--key", "partly/a", "--timeout", "1.5", "--", "touch", "started"],
      env,
      folder,
    );
    await eventually("the run to queue", async () => (await locks.query("partly/b"))?.waiters === 1);
    expect((await locks.query("partly/a"))?.holders).toBe(1);
    expect(await running.exited).toEqual({ code: 75, signal: null });
    expect(running.stderr).toMatch(/^busy partly\/b: held by ada/);
    expect(leftovers()).toEqual([]);
    expect([(await locks.query("partly/a"))?.holders, lock.isHeld]).toEqual([0, true]);
  });

  it("that two runs are given in different orders never wait for each other [M13]", async () => {
    const one = ["run", "--key", "turns/a", "--key", "turns/b", "--", "true"];
    const other = ["run", "--key", "turns/b", "--key", "turns/a", "--", "true"];
    const work = async (args: string[]) => {
      for (let round = 0; round < 5; round += 1) expect(await finish(args, env)).toMatchObject({ code: 0, stderr: "" });
    };
    await Promise.all([work(one), work(other)]);
  });
});

describe("with both", () => {
  it("takes the file first, then the key, and gives the file back when the key is busy", async () => {
    await using locks = connect(urlOf(server), { label: "ada" });
    await using lock = await locks.acquire("both");
    await using running = start(
      ["run", "--file", "x", "--key", "both", "--timeout", "1.5", "--", "touch", "started"],
      env,
      folder,
    );
    await eventually("the run to queue at the server", async () => (await locks.query("both"))?.waiters === 1);
    expect(existsSync(x)).toBe(true);
    expect(await running.exited).toEqual({ code: 75, signal: null });
    expect(running.stderr).toMatch(/^busy both: held by ada/);
    expect(leftovers()).toEqual([]);
    expect(lock.isHeld).toBe(true);
  });

  it("shows both to the command", async () => {
    const { stdout } = await run(
      "--file",
      "x",
      "--key",
      "shown",
      "--",
      "sh",
      "-c",
      'echo "$HOLDFAST_FILE $HOLDFAST_KEY"',
    );
    expect(stdout).toBe("x shown\n");
    expect(leftovers()).toEqual([]);
  });
});

describe("a command line that makes no sense", () => {
  it.each([
    ["neither key nor file (F54)", ["--", "true"], "--key or --file is missing"],
    ["no command (F54)", ["--file", "x"], "the command to run is missing"],
    ["nothing behind --", ["--key", "k", "--"], "the command to run is missing"],
    ["a command without --", ["--key", "k", "true"], "put -- before the command"],
    ["a bad number", ["--key", "k", "--timeout", "abc", "--", "true"], "--timeout must be seconds"],
    ["a negative number", ["--key", "k", "--timeout=-1", "--", "true"], "--timeout must be seconds"],
    ["too many decimals", ["--key", "k", "--lease", "1.2345", "--", "true"], "--lease must be seconds"],
    ["no lease at all", ["--key", "k", "--lease", "0", "--", "true"], "--lease must be more than 0"],
    [
      "a stale time that would switch takeover off",
      ["--file", "x", "--stale", "0.5", "--", "true"],
      "--stale must be 0",
    ],
    ["a bad limit", ["--key", "k", "--limit", "0", "--", "true"], "--limit must be a whole number"],
    ["a choice that is none", ["--key", "k", "--on-lost", "cry", "--", "true"], "--on-lost must be kill or warn"],
    ["an unknown flag", ["--kye", "k", "--", "true"], "unknown flag --kye"],
    ["a flag without value", ["--key"], "--key needs a value"],
    ["a bad key", ["--key", "a b", "--", "true"], "--key must be 1 to 256 bytes"],
    ["a bad key beside a good one", ["--key", "", "--key", "a", "--", "true"], "--key must be 1 to 256 bytes"],
    ["a key twice", ["--key", "a", "--key", "b", "--key", "a", "--", "true"], '--key "a" is given twice'],
    [
      "seventeen keys",
      [...Array.from({ length: 17 }, (_, index) => `--key=${index}`), "--", "true"],
      "--key may be given 16 times, not 17",
    ],
    ["a bad address", ["--url", "ftp://x", "--key", "k", "--", "true"], "--url must be an http or https address"],
  ])("%s: exit code 2 and the usage", async (_, args, message) => {
    const { code, stdout, stderr } = await run(...args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    const [complaint, usage, ...rest] = stderr.split("\n");
    expect(complaint).toContain(message);
    expect(usage).toMatch(/^usage: holdfast run \[--key KEY\]/);
    expect(rest).toEqual([""]);
    expect(leftovers()).toEqual([]);
  });

  it("--quiet says nothing, also then", async () => {
    expect(await run("--quiet", "--", "true")).toEqual({ code: 2, stdout: "", stderr: "" });
  });
});
