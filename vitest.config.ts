import { fileURLToPath } from "node:url";
import { cloudflareTest } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { buildConsole } from "./scripts/console.ts";
import { SlowestFiles } from "./test/support/slowest-files.ts";

// The runtime under test would otherwise look itself up on the network.
process.env.CLOUDFLARE_CF_FETCH_ENABLED ??= "false";
process.env.WRANGLER_SEND_METRICS ??= "false";

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
const TRANSCRIPTS = "test/e2e/transcripts.test.ts";

/**
 * The suites: `pure` needs nothing but Node, `objects` (and `capped`, with other variables) runs inside workerd, `server` (and `transcripts`) talks to
 * real processes over real sockets (started from `dist/`, so `npm test` builds first), `long` does so in stories that want the machine for themselves,
 * `examples` runs those of Workers, beside such a process, `files` is about lock files: real files, shells and contending processes.
 *
 * `npm test` leaves out `*.long.test.ts`. Most suites have as many workers as the machine they are made for has cores: two.
 */
export default defineConfig({
  test: {
    reporters: ["default", new SlowestFiles()],
    projects: [
      {
        test: {
          name: "pure",
          include: [
            "test/engine/**/*.test.ts",
            "test/session/**/*.test.ts",
            "test/simulation/*.test.ts",
            "test/protocols/**/*.test.ts",
            "test/relay/*.test.ts",
            "test/contract/engine.test.ts",
            "test/http/**/*.test.ts",
            "test/front/*.test.ts",
            "test/config.test.ts",
            "test/tree/*.test.ts",
            "test/metrics/**/*.test.ts",
            "test/auth/**/*.test.ts",
            "test/client/pure/*.test.ts",
            "test/console/pure/*.test.ts",
            "test/bench/*.test.ts",
          ],
          maxWorkers: 2,
        },
      },
      {
        plugins: [cloudflareTest({ wrangler: { configPath: "./wrangler.toml" } })],
        test: {
          name: "objects",
          include: ["test/objects/*.test.ts", "test/objects/!(capped)/*.test.ts"],
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: CAPPED, ratelimits: GUARD },
          }),
        ],
        test: {
          name: "capped",
          include: ["test/objects/capped/*.test.ts"],
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./examples/worker/wrangler.toml" },
            miniflare: { r2Buckets: ["BUCKET"] },
          }),
        ],
        resolve: { alias: { "holdfast-client": fileURLToPath(new URL("./src/client/index.ts", import.meta.url)) } },
        test: {
          name: "examples",
          include: ["test/examples/*.test.ts"],
          globalSetup: "./test/support/locks-service.ts",
          testTimeout: 60_000,
          sequence: { groupOrder: 1 },
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "server",
          include: SERVER_TESTS.map((folder) => `test/${folder}/*.test.ts`),
          exclude: ["**/*.long.test.ts", "test/contract/engine.test.ts", TRANSCRIPTS],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: PATIENT_POLLS,
          sequence: { groupOrder: 2 },
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "transcripts",
          include: [TRANSCRIPTS],
          // Cases spend their time sleeping, so many can be under way at once; the test says how many.
          maxConcurrency: 300,
          sequence: { groupOrder: 2 },
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "long",
          include: SERVER_TESTS.map((folder) => `test/${folder}/*.long.test.ts`),
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: PATIENT_POLLS,
          // Stories about time and memory want the machine for themselves.
          sequence: { groupOrder: 3 },
          maxWorkers: 1,
        },
      },
      {
        test: {
          name: "files",
          include: ["test/files/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 40_000,
          sequence: { groupOrder: 4 },
          maxWorkers: 3,
          maxConcurrency: 6,
        },
      },
    ],
  },
});
