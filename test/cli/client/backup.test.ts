/** `holdfast backup`, as operators use it: beside a server that runs. */
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/client/index.ts";
import { finish, start, urlOf } from "../processes.ts";
import { eventually, freePort, holdfast, startServe, temporaryDir } from "../support.ts";

const ADMIN = "let-me-in";
const SERVER = { args: ["--admin-token", ADMIN] };

const backup = (url: string, ...args: string[]) =>
  finish(["backup", ...args], { HOLDFAST_URL: url, HOLDFAST_TOKEN: ADMIN });

describe("holdfast backup", () => {
  it("writes a file from which a server starts, while the original keeps its own file to itself", async () => {
    const original = await startServe(SERVER);
    await using locks = connect(urlOf(original));
    const lock = await locks.acquire("deploy", { lease: 600_000 });
    const path = join(temporaryDir(), "copy.db");
    const { code, stdout, stderr } = await backup(urlOf(original), path);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe(`copied ${statSync(path).size} bytes to ${path}\n`);
    // It holds tokens.
    expect(statSync(path).mode & 0o777).toBe(0o600);

    // The lock on the original's file is still there: a second server is refused.
    const second = holdfast(["serve", "--port", "0", "--http-port", "0", "--data-dir", original.dataDir]);
    expect((await second.exited).code).toBe(1);
    expect(second.stderr).toContain("is in use by another server");

    const dataDir = temporaryDir();
    renameSync(path, join(dataDir, "holdfast.db"));
    const restored = await startServe({ ...SERVER, dataDir });
    await using others = connect(urlOf(restored));
    expect((await others.query("deploy"))?.held_by).toMatchObject([{ fence: lock.fence }]);
    expect(await others.tryAcquire("deploy")).toBeNull();
    expect(lock.isHeld).toBe(true);
  });

  it("writes over nothing unless it is told to, and leaves nothing else behind", async () => {
    const server = await startServe(SERVER);
    const folder = temporaryDir();
    const path = join(folder, "copy.db");
    writeFileSync(path, "mine");
    expect(await backup(urlOf(server), path)).toEqual({
      code: 3,
      stdout: "",
      stderr: `holdfast: ${path} exists: name another file, or add --force\n`,
    });
    expect(readFileSync(path, "utf8")).toBe("mine");
    const { code, stdout } = await backup(urlOf(server), path, "--force", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ ok: true, path, bytes: statSync(path).size });
    expect(readFileSync(path, "latin1")).toMatch(/^SQLite format 3\0/);
    expect(readdirSync(folder)).toEqual(["copy.db"]);
  });

  it("says what is wrong: no token for it, no directory, nothing on disk, no server", async () => {
    const server = await startServe(SERVER);
    const path = join(temporaryDir(), "copy.db");
    const withoutToken = await finish(["backup", path, "--url", urlOf(server)]);
    expect(withoutToken).toMatchObject({ code: 77, stdout: "" });
    const missing = join(path, "no", "copy.db");
    expect(await backup(urlOf(server), missing)).toMatchObject({
      code: 3,
      stderr: `holdfast: cannot write ${missing}: no such file or directory\n`,
    });
    const volatile = await startServe({ ...SERVER, dataDir: ":memory:" });
    expect(await backup(urlOf(volatile), path)).toMatchObject({
      code: 69,
      stderr: expect.stringContaining("keeps nothing on disk"),
    });
    expect(await backup(`http://127.0.0.1:${await freePort()}`, path)).toMatchObject({ code: 69 });
    expect(existsSync(path)).toBe(false);
  });
});

describe("a copy that breaks off", () => {
  /** A server that sends the beginning of a copy, and then what the test wants. */
  async function beginning(text: string, { isCut = false } = {}): Promise<string> {
    const server = createServer((_, reply) => {
      reply.writeHead(200, { "content-type": "application/vnd.sqlite3", "content-length": "100000" });
      reply.write(text, () => {
        if (isCut) reply.destroy();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  it("is an error, and no file", async () => {
    const folder = temporaryDir();
    const url = await beginning("SQLite format 3\0", { isCut: true });
    expect(await backup(url, join(folder, "copy.db"))).toMatchObject({
      code: 69,
      stderr: expect.stringContaining("the connection was cut"),
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  it("because of Ctrl-C leaves nothing", async () => {
    const folder = temporaryDir();
    const url = await beginning("SQLite format 3\0");
    await using running = start(["backup", join(folder, "copy.db"), "--url", url]);
    await eventually("the first bytes", () => readdirSync(folder).length === 1);
    running.child.kill("SIGINT");
    expect(await running.exited).toEqual({ code: 130, signal: null });
    expect(readdirSync(folder)).toEqual([]);
    expect(running.stderr).toBe("");
  });

  it("is not taken for one when something else answers", async () => {
    const server = createServer((_, reply) => reply.end("<h1>welcome</h1>"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const path = join(temporaryDir(), "copy.db");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await backup(url, path)).toMatchObject({
      code: 70,
      stderr: expect.stringContaining("does not answer like a holdfast server"),
    });
    expect(existsSync(path)).toBe(false);
  });
});
