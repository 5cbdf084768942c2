/** `npm run simulate -- --seeds 1000000`, with `--host node` for the Node host, `--host listing` for keys that delete themselves; `--seed 7` for the story of one. */
import { parseArgs } from "node:util";
import { simulateListing } from "./listing/simulation.ts";
import { simulateNode } from "./node/simulation.ts";
import { type Story, simulate } from "./simulation.ts";

const HOSTS: Readonly<Record<string, (seed: number) => Story | Promise<Story>>> = {
  cloudflare: simulate,
  node: simulateNode,
  listing: simulateListing,
};

const { values } = parseArgs({
  options: {
    host: { type: "string", default: "cloudflare" },
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
  },
});
const REPORT_EVERY_MS = 10_000;
const LINES = 80;

const run = HOSTS[values.host];
if (!run) throw new Error(`--host must be one of ${Object.keys(HOSTS).join(", ")}`);
const first = Number(values.seed ?? values.from);
const count = values.seed === undefined ? Number(values.seeds) : 1;
const startedAt = Date.now();
let [grants, reportedAt] = [0, startedAt];

for (let seed = first; seed < first + count; seed++) {
  const { problem, grants: more } = await run(seed);
  grants += more;
  if (problem) {
    const { message, story } = problem;
    console.error([...story.slice(values.seed === undefined ? -LINES : 0), message].join("\n"));
    console.error(`\nAgain, with its whole story: npm run simulate -- --seed ${seed} --host ${values.host}`);
    process.exit(1);
  }
  if (Date.now() - reportedAt > REPORT_EVERY_MS) {
    reportedAt = Date.now();
    console.log(`${seed - first + 1} seeds, ${grants} grants`);
  }
}
const seconds = ((Date.now() - startedAt) / 1_000).toFixed(1);
console.log(`${count} seeds, ${grants} grants, ${seconds} s: nothing went wrong`);
