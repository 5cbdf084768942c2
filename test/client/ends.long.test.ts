/** A client that is closed keeps no program running, whatever became of its connections. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCutProxy } from "../support/cut-proxy.ts";
import { sleep } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";

const PROGRAM = fileURLToPath(new URL("./silent-program.ts", import.meta.url));
/** For starting up, for noticing (two heartbeats) and for a close in vain (five seconds). */
const WITHIN_S = 30;
const EXIT_WITHIN_MS = 2_000;

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

/** The program's next line. */
async function says(lines: AsyncIterator<string>): Promise<string> {
  const late = sleep(WITHIN_S).then(() => ({ value: "nothing in time" }));
  const { value } = await Promise.race([lines.next(), late]);
  return value;
}

async function withProgram(
  args: string[],
  story: (child: ChildProcess, lines: AsyncIterator<string>) => Promise<void>,
) {
  const child = spawn(process.execPath, ["--no-warnings", PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await story(child, createInterface(child.stdout)[Symbol.asyncIterator]());
  } finally {
    child.kill("SIGKILL");
  }
}

// At the same time: each of them mostly waits.
describe.concurrent.each(["native", "ws"])("a Node program with the WebSocket that is %s", (kind) => {
  it.each([
    ["whose connection once died silently", "back"],
    ["that nobody answers any more", "away"],
  ] as const)("%s ends by itself after it has closed its client", async (_, until) => {
    await using proxy = await startCutProxy(() => server.httpPort);
    await withProgram([String(proxy.port), kind, until], async (child, lines) => {
      const exited = once(child, "exit");
      expect(await says(lines)).toBe("held");
      if (until === "back") proxy.blackHole();
      else proxy.swallow();
      expect(await says(lines)).toBe("closed");
      const closedAt = performance.now();
      const [code] = await Promise.race([exited, sleep(WITHIN_S).then(() => ["still running"])]);
      expect(code).toBe(0);
      expect(performance.now() - closedAt).toBeLessThan(EXIT_WITHIN_MS);
    });
  });
});
