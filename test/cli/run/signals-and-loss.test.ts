/** What ends a `holdfast run` before its time. The tests run side by side: most of them wait for a clock. */
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, it } from "vitest";
import { isInForeground } from "../../../src/cli/run/signals.ts";
import { connect } from "../../../src/client/index.ts";
import { FileLock } from "../../../src/lockfile/index.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { stopwatch } from "../../support/stopwatch.ts";
import { finish, printed, type Started, start, urlOf } from "../processes.ts";
import { eventually, isRunning } from "../support.ts";

const GRACE_S = 2;
const ADMIN = "let-me-in";

let server: TestServer;
let env: Record<string, string>;
let folder: string;

beforeAll(async () => {
  server = await startServer({ variables: { RESUME_GRACE_S: String(GRACE_S), ADMIN_TOKEN: ADMIN } });
  env = { HOLDFAST_URL: urlOf(server) };
  folder = mkdtempSync(join(tmpdir(), "holdfast-run-"));
});
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server.stop();
});

/** A command that answers signals by their name, and prints its process id first. */
const TRAPS =
  'for s in INT TERM HUP QUIT; do trap "echo got $s; exit 9" $s; done; echo $$; while :; do sleep 0.05; done';
const IGNORES = 'trap "" TERM; echo $$; while :; do sleep 0.05; done';

async function startHolding(
  args: string[],
  script = "echo $$; exec sleep 60",
): Promise<Started & { childPid: number }> {
  const started = start(["run", ...args, "--", "sh", "-c", script], env, folder);
  return Object.assign(started, { childPid: Number.parseInt(await printed(started, "\n"), 10) });
}

/** An administrator takes the key away. */
async function steal(key: string): Promise<void> {
  const base = `${urlOf(server)}/v1`;
  const { held_by } = (await (await fetch(`${base}/keys/${key}`)).json()) as { held_by: { fence: string }[] };
  const response = await fetch(`${base}/admin/holders/${key}?token_fence=${held_by[0]?.fence}`, {
    method: "DELETE",
    headers: { Authorization: `Bearer ${ADMIN}` },
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`${response.status}`);
}

describe.concurrent("signals", () => {
  for (const [signal, name] of [
    ["SIGINT", "INT"],
    ["SIGTERM", "TERM"],
    ["SIGHUP", "HUP"],
    ["SIGQUIT", "QUIT"],
  ] as const) {
    it(`${signal} is passed on, and run ends as the command does`, async ({ expect }) => {
      await using running = await startHolding(["--key", `signal-${name}`], TRAPS);
      running.child.kill(signal);
      expect(await running.exited).toEqual({ code: 9, signal: null });
      expect(running.stdout).toContain(`got ${name}\n`);
    });
  }

  it("SIGTERM to run ends a plain command, and the file with it: 143 (F53)", async ({ expect }) => {
    await using running = await startHolding(["--file", "f53"]);
    running.child.kill("SIGTERM");
    expect(await running.exited).toEqual({ code: 143, signal: null });
    expect(isRunning(running.childPid)).toBe(false);
    expect(existsSync(join(folder, "f53"))).toBe(false);
  });

  it("a signal while waiting ends the wait, and nothing is left in the queue", async ({ expect }) => {
    await using locks = connect(urlOf(server));
    await using _lock = await locks.acquire("occupied");
    await using waiting = start(["run", "--file", "first", "--key", "occupied", "--", "touch", "started"], env, folder);
    await eventually("the run to queue", async () => (await locks.query("occupied"))?.waiters === 1);
    waiting.child.kill("SIGINT");
    expect(await waiting.exited).toEqual({ code: 130, signal: null });
    expect((await locks.query("occupied"))?.waiters).toBe(0);
    expect(readdirSync(folder)).not.toContain("first");
    expect(readdirSync(folder)).not.toContain("started");
  });

  it("Ctrl-C reaches the command by itself where run is in the foreground of a terminal", ({ expect }) => {
    const stat = (group: number, terminal: number, foreground: number) => () =>
      `17 (a) b) S 1 ${group} 9 ${terminal} ${foreground} 4194304 0`;
    expect(isInForeground(stat(17, 34816, 17))).toBe(true);
    expect(isInForeground(stat(17, 34816, 12))).toBe(false);
    expect(isInForeground(stat(17, 0, -1))).toBe(false);
  });
});

describe.concurrent("loss", () => {
  it("a key that is taken away ends the command: 76", async ({ expect }) => {
    await using running = await startHolding(["--key", "robbed"]);
    await steal("robbed");
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stderr).toBe("lost robbed: stolen\n");
    expect(isRunning(running.childPid)).toBe(false);
  });

  it("one of several keys that is taken away ends the command, and the others are given back", async ({ expect }) => {
    await using running = await startHolding(["--key", "of-two-b", "--key", "of-two-a"]);
    await steal("of-two-b");
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stderr).toBe("lost of-two-b: stolen\n");
    await using locks = connect(urlOf(server));
    expect((await locks.query("of-two-a"))?.holders).toBe(0);
  });

  it("one of several keys that is taken away while the next is waited for: the command does not run", async ({
    expect,
  }) => {
    await using locks = connect(urlOf(server));
    await using lock = await locks.acquire("of-three-c");
    const keys = ["of-three-b", "of-three-c", "of-three-a"].flatMap((key) => ["--key", key]);
    await using running = start(["run", ...keys, "--", "touch", "of-three"], env, folder);
    await eventually("the run to queue", async () => (await locks.query("of-three-c"))?.waiters === 1);
    await steal("of-three-a");
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stderr).toBe("lost of-three-a: stolen\n");
    expect(existsSync(join(folder, "of-three"))).toBe(false);
    expect((await locks.query("of-three-b"))?.holders).toBe(0);
    expect([lock.isHeld, (await locks.query("of-three-c"))?.waiters]).toEqual([true, 0]);
  });

  it("--on-lost warn says so and lets the command finish", async ({ expect }) => {
    await using running = await startHolding(["--key", "warned", "--on-lost", "warn"], "echo $$; read line; exit 5");
    await steal("warned");
    await eventually("the warning", () => running.stderr === "lost warned: stolen\n");
    expect(isRunning(running.childPid)).toBe(true);
    running.child.stdin?.end("go\n");
    expect(await running.exited).toEqual({ code: 5, signal: null });
  });

  it("a command that ignores SIGTERM is killed ten seconds later", async ({ expect }) => {
    await using running = await startHolding(["--key", "stubborn"], IGNORES);
    await steal("stubborn");
    const since = performance.now();
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(performance.now() - since).toBeGreaterThan(9_500);
    expect(isRunning(running.childPid)).toBe(false);
  });

  it("a file that vanishes is lost too", async ({ expect }) => {
    await using running = await startHolding(["--file", "vanishing", "--stale", "3"]);
    rmSync(join(folder, "vanishing"));
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect(running.stderr).toBe("lost vanishing: its file is gone\n");
  });

  it("a file that cannot be refreshed because its guard stays in use is lost at 0.9 of the stale time", async ({
    expect,
  }) => {
    const guard = join(folder, ".guarded.hf-guard");
    await using running = await startHolding(["--file", "guarded", "--stale", "3"]);
    const since = performance.now();
    writeFileSync(guard, "pid=1\ntimestamp=1\n");
    expect(await running.exited).toEqual({ code: 76, signal: null });
    expect((performance.now() - since) / 1000).toBeLessThan(6);
    expect(running.stderr).toMatch(
      /^lost guarded: it could not be refreshed in time \([^\n]*\.guarded\.hf-guard is in use by another process\)\n/,
    );
    expect(isRunning(running.childPid)).toBe(false);
    rmSync(guard);
  });
});

describe.concurrent("a server that goes away", () => {
  it("while the command runs does not change its exit code, if it comes to its end in time", async ({ expect }) => {
    await using short = await startServer();
    const args = ["run", "--key", "orphaned", "--", "sh", "-c", "echo in; read line; exit 5"];
    await using running = start(args, { HOLDFAST_URL: urlOf(short) });
    await printed(running, "in\n");
    await short.kill9();
    running.child.stdin?.end("go\n");
    expect(await running.exited).toEqual({ code: 5, signal: null });
    expect(running.stderr).toMatch(/^holdfast: the server at \S+ did not confirm the release of orphaned: [^\n]+\n$/);
  });

  it("and says nothing at all: Ctrl-C still ends the wait at once", async ({ expect }) => {
    const sockets: Socket[] = [];
    const silent = createServer((socket) => sockets.push(socket));
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
    await using running = start(["run", "--key", "k", "--", "true"], { HOLDFAST_URL: url });
    await eventually("the run to connect", () => sockets.length > 0);
    const elapsed = stopwatch();
    running.child.kill("SIGINT");
    expect(await running.exited).toEqual({ code: 130, signal: null });
    expect(elapsed()).toBeLessThan(2_000);
    for (const socket of sockets) socket.destroy();
    silent.close();
  });
});

describe.concurrent("time", () => {
  it("a file is refreshed for as long as the command runs (F51)", async ({ expect }) => {
    await using running = start(
      ["run", "--file", "f51", "--stale", "3", "--", "sh", "-c", "echo in; sleep 8"],
      env,
      folder,
    );
    await printed(running, "in\n");
    const path = join(folder, "f51");
    let attempts = 0;
    for (;;) {
      const lock = new FileLock(path, { stale: 3 });
      const attempt = await lock.tryAcquire().catch((error: Error) => error.name);
      if (typeof attempt !== "string") {
        expect(attempt.tookOver).toBe(false);
        await lock.release();
        break;
      }
      expect(attempt).toBe("HeldError");
      attempts += 1;
      await pause(1_000);
    }
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(attempts).toBeGreaterThanOrEqual(7);
  });

  it("a key is renewed for as long as the command runs", async ({ expect }) => {
    await using other = connect(urlOf(server));
    await using running = start(["run", "--key", "renewed", "--lease", "4", "--", "sh", "-c", "echo in; sleep 9"], env);
    await printed(running, "in\n");
    // It waits its turn behind a lease of four seconds, and gets it only when the command has ended.
    await using _lock = await other.acquire("renewed", { timeout: 40_000 });
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.stderr).toBe("");
  });

  it("a run that is killed gives up its key with the grace of its session, and no earlier", async ({ expect }) => {
    await using other = connect(urlOf(server));
    await using running = await startHolding(["--key", "killed", "--lease", "600"]);
    const since = performance.now();
    running.child.kill("SIGKILL");
    await using _lock = await other.acquire("killed", { timeout: 30_000 });
    const seconds = (performance.now() - since) / 1000;
    expect(seconds).toBeGreaterThan(GRACE_S - 0.5);
    expect(seconds).toBeLessThan(GRACE_S + 6);
  });

  it("what several runs guard never runs twice at a time", async ({ expect }) => {
    const script = "mkdir inside && sleep 0.05 && rmdir inside";
    const ends = await Promise.all(
      Array.from({ length: 6 }, () => finish(["run", "--key", "one-at-a-time", "--", "sh", "-c", script], env, folder)),
    );
    expect(ends.map(({ code, stderr }) => [code, stderr])).toEqual(ends.map(() => [0, ""]));
  });
});
