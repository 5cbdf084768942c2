import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../support/server.ts";
import { EmptyFolder, packAll, packed, ROOT } from "./support.ts";

const PROGRAM = `
import { connect, webLocks } from "holdfast-client";
import { FileLock, parseLockText } from "holdfast-client/lockfile";

const locks = connect(process.argv[2]);
{
  const lock = await locks.acquire("packaged", { lease: 5_000 });
  console.log(lock.key, lock.isHeld, /^[0-9a-f]{16}$/.test(lock.fence));
  await lock.release();
}
console.log(await webLocks(locks).request("packaged", () => "done"));
await locks.close();
const file = new FileLock("packaged.lock", { tag: "test" });
await file.acquire({ timeout: 1 });
console.log((await file.status()).state);
await file.release();
console.log((await file.status()).state, parseLockText(new Uint8Array()));
`;

const TYPED = `
import { AcquireTimeoutError, connect, type Lock, LockLostError, webLocks } from "holdfast-client";
import { FileLock, formatLockText, HeldError, parseLockText } from "holdfast-client/lockfile";

const locks = connect("http://127.0.0.1:6389", { label: "typed" });
export async function use(signal: AbortSignal): Promise<string> {
  await using lock: Lock = await locks.acquire("key", { lease: 5_000, signal });
  await webLocks(locks).request("key", { mode: "exclusive" }, () => {});
  const file = new FileLock("/run/x.lock", { stale: 5 });
  await file.acquire({ timeout: 1, signal });
  return lock.fence;
}
// @ts-expect-error: there is no such option
locks.acquire("key", { leese: 5_000 });
export const names = [AcquireTimeoutError, LockLostError, HeldError, formatLockText, parseLockText];
`;

describe("holdfast-client, packed and installed in an empty folder", () => {
  let folder: EmptyFolder;
  let server: TestServer;
  let installed: string[];
  beforeAll(async () => {
    packAll();
    folder = new EmptyFolder();
    installed = await folder.install(packed("holdfast-client"));
    server = await startServer();
  });
  afterAll(async () => {
    await server.stop();
    folder[Symbol.dispose]();
  });

  it("brings nothing else, and a few tens of kilobytes", () => {
    const { kilobytes } = packed("holdfast-client");
    expect(installed).toEqual(["holdfast-client"]);
    expect(kilobytes).toBeLessThan(64);
    for (const name of ["README.md", "LICENSE"])
      expect(existsSync(join(folder.path, "node_modules/holdfast-client", name))).toBe(true);
  });

  it("locks a key, a Web Lock and a file", async () => {
    folder.write("use.mjs", PROGRAM);
    const printed = await folder.run(process.execPath, ["use.mjs", `http://127.0.0.1:${server.httpPort}`]);
    expect(printed.trim().split("\n")).toEqual(["packaged true true", "done", "held", "free { kind: 'malformed' }"]);
  });

  it.each(["bundler", "nodenext"])("has types under %s, without those of Node", async (moduleResolution) => {
    folder.write("typed.ts", TYPED);
    const compilerOptions = {
      moduleResolution,
      module: moduleResolution === "bundler" ? "esnext" : "nodenext",
      target: "es2022",
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
    };
    folder.write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["typed.ts"] }));
    expect(await folder.run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."])).toBe("");
  });
});
