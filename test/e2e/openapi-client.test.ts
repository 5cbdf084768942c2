import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";

const pathOf = (file: string) => fileURLToPath(new URL(file, import.meta.url));
const GENERATOR = pathOf("../openapi-client/node_modules/.bin/openapi-typescript");
const COMPILER = pathOf("../../node_modules/.bin/tsc");
const CLIENT = pathOf("../openapi-client/cycle.ts");
const CLIENT_TSCONFIG = pathOf("../openapi-client/tsconfig.json");

let server: TestServer;
let folder: string;
beforeAll(async () => {
  server = await startServer();
  folder = await mkdtemp(join(tmpdir(), "holdfast-client-"));
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Runs a program to its end; one that fails says why. */
async function run(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { timeout: 30_000 }).catch((error) => {
    throw new Error(`${program} failed:\n${error.stdout}\n${error.stderr}`, { cause: error });
  });
  return stdout;
}

it("a client generated from the live document type-checks, refuses mistakes, and gets a lock through its whole life", async () => {
  const url = `http://127.0.0.1:${server.httpPort}`;
  await run(GENERATOR, `${url}/v1/openapi.json`, "-o", join(folder, "api.d.ts"), "--default-non-nullable", "false");
  const tsconfig = join(folder, "tsconfig.json");
  const compilerOptions = { paths: { "holdfast-api": ["./api.d.ts"] } };
  await writeFile(tsconfig, JSON.stringify({ extends: CLIENT_TSCONFIG, compilerOptions, files: [CLIENT] }));
  await run(COMPILER, "-p", tsconfig);

  const said = await run(process.execPath, CLIENT, url);
  expect(said.trimEnd().split("\n")).toEqual([
    "ada has a session, to be pinged every 10 s",
    "bob has a session, to be pinged every 10 s",
    "ada holds the lock for 33 s",
    "bob tries: timeout",
    "bob enqueues: queued",
    "bob enqueues again: 409 already_enqueued",
    "ada renews: 60 s",
    "ada releases: 204",
    "bob holds the lock for 9 s",
    "bob's token is the later one: true",
    "ada releases again: 404 not_held",
    "ada takes it for a semaphore: 409 limit_mismatch",
    "a session ends: 204",
    "a session ends: 204",
    "bob comes back: 410 session_gone",
    "locks held: 0, idle: build/nightly",
  ]);
});
