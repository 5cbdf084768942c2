/** The Node program of examples/, as its user runs it. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { connect } from "../../src/client/index.ts";
import { poll } from "../support/poll.ts";
import { startServer, type TestServer } from "../support/server.ts";

const ADMIN = "the operator's token";
const NIGHTLY = fileURLToPath(new URL("../../examples/node/nightly.ts", import.meta.url));
const run = promisify(execFile);

let server: TestServer;
beforeAll(async () => {
  server = await startServer({ variables: { ADMIN_TOKEN: ADMIN } });
});
afterAll(() => server.stop());
const url = () => `http://127.0.0.1:${server.httpPort}`;
const nightly = () => run(process.execPath, [NIGHTLY, url()], { timeout: 30_000 });

describe("the nightly job", () => {
  it("is left to whoever does it already", async () => {
    await using locks = connect(url());
    await using _lock = await locks.acquire("nightly");
    const outputs = await Promise.all([nightly(), nightly()]);
    for (const { stdout } of outputs) expect(stdout).toBe("somebody else does it\n");
  });

  it("is done by who finds it undone", async () => {
    expect((await nightly()).stdout).toMatch(/^started with fence [0-9a-f]{16}\ndone\n$/);
  });

  it("stops when its lock is taken away", async () => {
    await using admin = connect(url(), { token: ADMIN });
    const job = nightly().catch((error: { code: number; stdout: string }) => error);
    await poll("the job to start", 10_000, async () => (await admin.query("nightly"))?.holders === 1 || undefined);
    await using _stolen = await admin.acquire("nightly", { steal: true });
    expect(await job).toMatchObject({ code: 1, stdout: expect.stringContaining("stopped: nightly is lost: stolen\n") });
  });
});
