/** What a terminal gets, from a real process that believes its pipes to be one. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../../src/client/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { printed, start, urlOf } from "../processes.ts";
import { eventually, fixture } from "../support.ts";

const ENTERED = "\u001b[?1049h\u001b[?25l";
const LEFT = "\u001b[0m\u001b[?25h\u001b[?1049l";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

const onTerminal = (args: string[], target: { httpPort: number } = server) =>
  start(args, { HOLDFAST_URL: urlOf(target), TERM: "xterm", NODE_OPTIONS: `--import=${fixture("terminal.ts")}` });

describe("top on a terminal", () => {
  it("follows what happens, and leaves the terminal as it was when q is pressed", async () => {
    await using locks = connect(urlOf(server), { label: "ada" });
    await using running = onTerminal(["top"]);
    await printed(running, "nothing is held");
    await using lock = await locks.acquire("desk");
    await printed(running, "desk  1/1 held, 0 waiting");
    await printed(running, "ada, held");
    await lock.release();
    const drawn = running.stdout.length;
    await eventually("the key to go", () => running.stdout.slice(drawn).includes("nothing is held"));
    expect(running.stdout.startsWith(`${ENTERED}<raw true>`)).toBe(true);
    running.child.stdin?.write("q");
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stdout.endsWith(`<raw false>${LEFT}`)).toBe(true);
    expect(running.stderr).toBe("");
  });

  it.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("leaves it as it was after %s", async (signal) => {
    await using running = onTerminal(["top"]);
    await printed(running, "q quits");
    running.child.kill(signal);
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stdout.endsWith(`<raw false>${LEFT}`)).toBe(true);
  });

  it("goes on while the server is away, and says why", async () => {
    await using other = await startServer();
    await using running = onTerminal(["top"], other);
    await printed(running, "q quits");
    await other.kill9();
    await printed(running, "no server at");
    expect(running.child.exitCode).toBeNull();
    running.child.stdin?.end();
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stdout.endsWith(LEFT)).toBe(true);
  });

  it("opens no screen for a server that is not there", async () => {
    await using running = onTerminal(["top"], { httpPort: 1 });
    expect(await running.exited).toEqual({ code: 69, signal: null });
    expect(running.stdout).toBe("");
    expect(running.stderr).toMatch(/^holdfast: no server at /);
  });

  it("a terminal that can do nothing gets one snapshot", async () => {
    const env = { HOLDFAST_URL: urlOf(server), TERM: "dumb", NODE_OPTIONS: `--import=${fixture("terminal.ts")}` };
    await using running = start(["top"], env);
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stdout).not.toContain("\u001b");
  });
});

describe("lock on a terminal", () => {
  it("shows the place in the queue while it waits, and wipes it when it is there", async () => {
    await using locks = connect(urlOf(server), { label: "ada" });
    const lock = await locks.acquire("chair");
    await using running = onTerminal(["lock", "chair", "--label", "bob"]);
    await eventually("the place", () => running.stderr.includes("waiting for chair: place 1 of 1, held by ada"));
    expect(running.stdout).toBe("");
    await lock.release();
    await printed(running, /lease=.*\n/);
    await eventually("the line to be wiped", () => running.stderr.endsWith("\r\u001b[K"));
    running.child.stdin?.end();
    expect(await running.exited).toEqual({ code: 0, signal: null });
  });

  it("shows nothing there with --json", async () => {
    await using locks = connect(urlOf(server));
    const lock = await locks.acquire("lamp");
    await using running = onTerminal(["lock", "lamp", "--json"]);
    await eventually("it to wait", async () => (await locks.query("lamp"))?.queue[0]);
    await lock.release();
    await printed(running, "\n");
    expect(running.stderr).toBe("");
  });
});
