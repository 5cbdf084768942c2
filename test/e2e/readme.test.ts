import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { openClient } from "../support/wire-client.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const README = readFileSync(join(ROOT, "README.md"), "utf8");

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

describe("the examples in the README work as printed", () => {
  it("netcat", async () => {
    const [, quoted = ""] = /printf '([^']+)' \| nc localhost 6388/.exec(README) ?? [];
    const bytes = quoted.replaceAll("\\n", "\n");
    expect(bytes).toMatch(/^l\n/);
    const client = await openClient("tcp", server);
    client.send(bytes);
    client.halfclose();
    expect(await client.next(2_000)).toMatch(/^ok [0-9a-f]{32} 33\n$/);
    await client.closed(2_000);
  });

  it("the command, which builds itself if it has to", async () => {
    const [, command = ""] = /^(npm run --silent holdfast -- run .*)$/m.exec(README) ?? [];
    const env = { ...process.env, HOLDFAST_URL: `http://127.0.0.1:${server.httpPort}` };
    const { stdout } = await promisify(execFile)("sh", ["-c", command], { cwd: ROOT, env });
    expect(stdout).toBe("one at a time, on every machine\n");
  });

  it("in the order in which they stand: the clone first, and npm scripts that exist", () => {
    const commands = [...README.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].flatMap(([, block = ""]) =>
      block.split("\n").filter((line) => line !== ""),
    );
    expect(commands.slice(0, 2)).toEqual([
      expect.stringMatching(/^git clone \S+ && cd holdfast/),
      "npm install && npm start",
    ]);
    // In a clone, npm remembers that it has failed once, before the first build.
    expect(commands.filter((line) => line.startsWith("npx holdfast"))).toEqual([]);
    const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object };
    const named = [...README.matchAll(/npm run (?:--silent )?([a-z][a-z:]*)/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(3);
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(named));
  });

  it("the browser's console", async () => {
    const [, script = ""] = /```js\n([\s\S]+?)```/.exec(README) ?? [];
    const said: string[] = [];
    const AsyncFunction = (async () => {}).constructor as new (
      ...args: string[]
    ) => (console: unknown) => Promise<void>;
    const run = new AsyncFunction("console", script.replaceAll("127.0.0.1:6389", `127.0.0.1:${server.httpPort}`));
    await run({ log: (...words: string[]) => said.push(words.join(" ")) });
    await vi.waitUntil(() => said.length === 2, { timeout: 3_000, interval: 10 });
    expect(said[0]).toMatch(/^ada: ok [0-9a-f]{32} 33$/);
    expect(said[1]).toMatch(/^bob: ok [0-9a-f]{32} 33$/);
  });
});
