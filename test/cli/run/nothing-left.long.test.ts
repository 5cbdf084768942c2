/** Many short runs, and what is left of them. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { pooled } from "../../support/poll.ts";
import { startServer } from "../../support/server.ts";
import { finish, urlOf } from "../processes.ts";
import { eventually } from "../support.ts";

/** More of them by hand: `RUNS=2000 npx vitest run --project long test/cli/run/nothing-left.long.test.ts`. */
const RUNS = Number(process.env.RUNS ?? 100);
const MS_PER_RUN = 600;
const AT_A_TIME = 4;

it(
  `${RUNS} short runs leave no holder, no waiter, no session and no file behind`,
  async () => {
    await using server = await startServer();
    const folder = mkdtempSync(join(tmpdir(), "holdfast-run-"));
    try {
      const env = { HOLDFAST_URL: urlOf(server) };
      const jobs = Array.from({ length: RUNS }, (_, index) => index);
      const ends = await pooled(AT_A_TIME, jobs, (job) => {
        const held = ["--key", `short-${job % 10}`, ...(job % 5 === 0 ? ["--file", `x-${job % 10}`] : [])];
        return finish(["run", ...held, "--", "sh", "-c", `exit ${job % 3}`], env, folder);
      });
      expect(ends).toEqual(jobs.map((job) => ({ code: job % 3, stdout: "", stderr: "" })));
      expect(readdirSync(folder)).toEqual([]);
      const stats = await eventually(
        "the last session to end",
        async () => {
          const document = (await (await fetch(`${env.HOLDFAST_URL}/v1/stats`)).json()) as Record<string, unknown>;
          return document.connections === 0 ? document : undefined;
          // Well before the grace of a session that was not left.
        },
        3_000,
      );
      expect(stats).toMatchObject({ locks: [], semaphores: [] });
      expect(stats.idle_locks).toHaveLength(10);
      const metrics = await (await fetch(`${env.HOLDFAST_URL}/metrics`)).text();
      expect(metrics).toMatch(/^dflockd_http_sessions 0$/m);
      expect(metrics).toMatch(/^dflockd_ws_connections 0$/m);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  RUNS * MS_PER_RUN,
);
