import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { openClient } from "../support/wire-client.ts";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

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
