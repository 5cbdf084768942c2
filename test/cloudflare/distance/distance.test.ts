/** What clients wait for: how much crosses between objects, one after the other, and nothing of it to the directory or to metrics. */
import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, inject, it, vi } from "vitest";
import type { MeasuredPath } from "../../../bench/distance/table.ts";
import { directoryOfKey } from "../../../src/cloudflare/calls/directories.ts";
import { count } from "../../../src/cloudflare/metrics/isolate-tally.ts";
import { replaceCommand } from "../spies.ts";
import { type Distance, FarObjects, type Way } from "./far-objects.ts";
import { type Away, type DistancePath, PATHS } from "./paths.ts";

declare module "vitest" {
  interface TaskMeta {
    /** What `npm run distance` reads. */
    distance?: MeasuredPath;
  }
}

const NEAR: Distance = { crossingMs: 0, slowMs: 0 };
const SLOW_MS = 300;
const CROSSINGS_MS = inject("crossingsMs") ?? [80];

afterEach(async () => {
  vi.restoreAllMocks();
  await reset();
});

async function inFarObjects(story: (far: FarObjects) => Promise<void>): Promise<void> {
  const far = await FarObjects.begin();
  try {
    await story(far);
  } finally {
    far.end();
  }
}

/** Makes a report of the isolate's metrics due: whatever counts next sends it. */
async function countMuch(far: FarObjects): Promise<void> {
  for (let event = 0; event < 200; event++) count("rate_limited_total", {});
  await far.pass(11_000);
}

/** Takes a path with objects so far apart. */
function take(far: FarObjects, path: DistancePath, distance: Distance): Promise<Way> {
  const away: Away = async (work) => {
    await countMuch(far);
    far.distance = distance;
    try {
      return await work();
    } finally {
      far.distance = NEAR;
    }
  };
  return path.take(far, away);
}

const callsIn = ({ path }: Way) => path.filter(({ way }) => way === "there").length;

function pathNamed(name: string): DistancePath {
  const path = PATHS.find((each) => each.name === name);
  if (!path) throw new Error(`no path ${name}`);
  return path;
}

describe("a client waits for so many calls in sequence, and for nothing else, also with a directory and metrics that are slow:", () => {
  it.for(PATHS)("$name", (path, { task }) =>
    inFarObjects(async (far) => {
      const { calls, crossings } = path.budget;
      const times: { crossingMs: number; elapsedMs: number }[] = [];
      for (const crossingMs of CROSSINGS_MS) {
        const way = await take(far, path, { crossingMs, slowMs: SLOW_MS });
        times.push({ crossingMs, elapsedMs: way.elapsedMs });
        task.meta.distance = { name: path.name, calls: callsIn(way), crossings: way.path.length, times };
        expect(callsIn(way), JSON.stringify(way.path)).toBeLessThanOrEqual(calls);
        expect(way.path.length, JSON.stringify(way.path)).toBeLessThanOrEqual(crossings);
        // Nothing else takes time: not the directory, nor a timer that is not named.
        expect(way.elapsedMs).toBe(way.path.length * crossingMs + (path.pausesMs ?? 0));
      }
    }),
  );
});

describe("what is far away is asked, while nobody waits for it:", () => {
  it.for([
    ["first use of a key", "DIRECTORY listKey"],
    ["connect", "DIRECTORY openSession"],
    ["REST: open a session", "DIRECTORY openSession"],
    ["first use of a key", "METRICS report"],
  ] as const)("%s: %s", ([name, call]) =>
    inFarObjects(async (far) => {
      await take(far, pathNamed(name), { crossingMs: 80, slowMs: SLOW_MS });
      await far.pass(2_000);
      expect(far.calls).toContain(call);
    }),
  );
});

it("a key that asks the directory before it grants is found to be slower", async () => {
  replaceCommand("acquire", async (_, carryOut) => {
    await directoryOfKey(env, "any").ping();
    return carryOut();
  });
  await inFarObjects(async (far) => {
    const way = await take(far, pathNamed("first use of a key"), { crossingMs: 80, slowMs: SLOW_MS });
    expect(callsIn(way)).toBe(2);
    expect(way.elapsedMs).toBe(4 * 80 + SLOW_MS);
  });
});
