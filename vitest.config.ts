import { fileURLToPath } from "node:url";
import { cloudflareTest } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { buildConsole } from "./scripts/console.ts";
import { SlowestFiles } from "./test/support/slowest-files.ts";
import { storageRoot } from "./test/support/storage.ts";

// The runtime under test would otherwise look itself up on the network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";
process.env.WRANGLER_SEND_METRICS ??= "false";

// Temporary folders of all tests, and of what they start.
process.env.TMPDIR ??= storageRoot();

// The Worker imports it.
await buildConsole();

const CAPPED = {
  MAX_LOCKS: "3",
  MAX_CONNECTIONS: "8",
  MAX_CONNECTIONS_PER_IP: "4",
  HTTP_MAX_SESSIONS: "5",
  HTTP_MAX_SESSIONS_PER_IP: "3",
  GC_MAX_IDLE_S: "0",
  AUTO_RELEASE_ON_DISCONNECT: "false",
};

/** The platform's own rate limiter, asked only where a test sets a rate. */
const GUARD = { RATE_LIMIT_GUARD: { namespace_id: "1001", simple: { limit: 5, period: 60 as const } } };

/**
 * workerd's verbose log has a stack trace for every call that is rejected, and tests lose calls on purpose. The caller
 * gets the error anyway; `test/cloudflare/uncaught.ts` finds the errors that no caller gets.
 */
const QUIET = { verbose: false };

/** A line in the log that its test does not expect fails it (`test/support/expected-logs.ts`). */
const WATCH_LOGS = "./test/support/watch-logs.ts";
const WATCH_OBJECTS = [WATCH_LOGS, "./test/cloudflare/uncaught.ts"];

/** The default of one second is too short for a busy machine. */
const PATIENT_POLLS = { poll: { timeout: 10_000 } };

/** Where tests talk to real processes over real sockets. */
const SERVER_TESTS = [
  "e2e/**",
  "cli/**",
  "client",
  "browser",
  "console",
  "contract",
  "abuse",
  "packages",
  "godistlock",
];
/** Cases that spend their time sleeping, so many can be under way at once; the files say how many. */
const CONCURRENT_TESTS = ["test/e2e/transcripts.test.ts", "test/contract/server.test.ts"];

/** Most files wait, for leases, alarms, processes and sockets: with so many at a time, two cores are always busy. */
const WORKERS = 7;

/**
 * The suites: `pure` needs nothing but Node, `objects` (with `isolated` and, with other variables, `capped`) runs inside workerd, `server` (and
 * `concurrent`) talks to both hosts over real sockets (test/support/hosts.ts; the command is started from `dist/`, so `npm test` builds first), `long`
 * does so in stories that want the machine for themselves, `examples` runs those of Workers, beside such a process, `files` is about lock files: real files, shells and contending
 * processes.
 *
 * `npm test` leaves out `*.long.test.ts`. Files of a suite without isolation share a process and what it has loaded, so their start is paid once:
 * they use keys of their own, and put back what they mock. The suites run in the order of their names, and all at once but for the `long` one.
 */
export default defineConfig({
  test: {
    reporters: ["dot", new SlowestFiles()],
    projects: [
      {
        test: {
          name: "pure",
          include: [
            "test/engine/**/*.test.ts",
            "test/session/**/*.test.ts",
            "test/simulation/**/*.test.ts",
            "test/protocols/**/*.test.ts",
            "test/relay/*.test.ts",
            "test/contract/engine.test.ts",
            "test/http/**/*.test.ts",
            "test/node/**/*.test.ts",
            "test/config.test.ts",
            "test/tree/*.test.ts",
            "test/metrics/**/*.test.ts",
            "test/auth/**/*.test.ts",
            "test/client/pure/*.test.ts",
            "test/console/pure/*.test.ts",
            "test/bench/*.test.ts",
            "test/support/*.test.ts",
          ],
          setupFiles: WATCH_LOGS,
          isolate: false,
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        plugins: [
          cloudflareTest({
            ...QUIET,
            main: "./test/cloudflare/main.ts",
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { durableObjects: { LOCK_KEY: { className: "LockKey", useSQLite: true } } },
          }),
        ],
        test: {
          name: "objects",
          include: ["test/cloudflare/*.test.ts", "test/cloudflare/!(capped|metrics|reports)/*.test.ts"],
          setupFiles: [...WATCH_OBJECTS, "./test/cloudflare/new-service.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
          maxConcurrency: 12,
        },
      },
      {
        plugins: [cloudflareTest({ ...QUIET, wrangler: { configPath: "./wrangler.toml" } })],
        test: {
          name: "isolated",
          // What is counted since the process began, and what the whole service has.
          include: ["test/cloudflare/{metrics,reports}/*.test.ts"],
          setupFiles: WATCH_OBJECTS,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        plugins: [
          cloudflareTest({
            ...QUIET,
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: CAPPED, ratelimits: GUARD },
          }),
        ],
        test: {
          name: "capped",
          include: ["test/cloudflare/capped/*.test.ts"],
          setupFiles: [...WATCH_OBJECTS, "./test/cloudflare/new-service.ts"],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        plugins: [
          cloudflareTest({
            ...QUIET,
            wrangler: { configPath: "./examples/worker/wrangler.toml" },
            // The Worker itself runs beside the service, in test/e2e/examples.test.ts.
            miniflare: { r2Buckets: ["BUCKET"], serviceBindings: { LOCKS: () => new Response() as never } },
          }),
        ],
        resolve: { alias: { "holdfast-client": fileURLToPath(new URL("./src/client/index.ts", import.meta.url)) } },
        test: {
          name: "examples",
          include: ["test/examples/*.test.ts"],
          setupFiles: WATCH_LOGS,
          globalSetup: "./test/support/locks-service.ts",
          testTimeout: 60_000,
          hookTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "server",
          include: SERVER_TESTS.map((folder) => `test/${folder}/*.test.ts`),
          globalSetup: "./test/support/worker.ts",
          exclude: ["**/*.long.test.ts", "test/contract/engine.test.ts", ...CONCURRENT_TESTS],
          isolate: false,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: PATIENT_POLLS,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "concurrent",
          include: CONCURRENT_TESTS,
          globalSetup: "./test/support/worker.ts",
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: PATIENT_POLLS,
          maxConcurrency: 300,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
        },
      },
      {
        test: {
          name: "long",
          include: SERVER_TESTS.map((folder) => `test/${folder}/*.long.test.ts`),
          globalSetup: "./test/support/worker.ts",
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: PATIENT_POLLS,
          // Stories about time and memory want the machine for themselves.
          sequence: { groupOrder: 2 },
          maxWorkers: 1,
        },
      },
      {
        test: {
          name: "files",
          include: ["test/files/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 40_000,
          sequence: { groupOrder: 1 },
          maxWorkers: WORKERS,
          maxConcurrency: 6,
        },
      },
    ],
  },
});
