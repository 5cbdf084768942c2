/** Reports over many keys cost bystanders little, however many are asked for, and by whom. */
import { beforeAll, expect, it } from "vitest";
import { statsDocument } from "../../src/reports/stats.ts";
import { World } from "./support/world.ts";

const KEYS = 20_000;
const NAMES_AT_ONCE = 500;

let world: World;
/** Keys that were looked at. */
let looks = 0;
beforeAll(() => {
  world = new World({}, { isVolatile: true });
  const { runtime, host } = world;
  const holder = world.connect();
  for (let first = 0; first < KEYS; first += 100) {
    holder.askAll(Array.from({ length: 100 }, (_, count) => ["l", `k-${first + count}`, "0 3600"] as const));
    runtime.settle();
  }
  const { ask } = host.keys;
  host.keys.ask = (name, command) => {
    if (command.type === "describe") looks += 1;
    return ask.call(host.keys, name, command) as never;
  };
}, 60_000);

interface Report {
  readonly locks: readonly unknown[];
  readonly truncated?: true;
}

/** The order in which reports are there, by name. */
const told: string[] = [];

/** Asks for a report that no other question is equal to. */
async function askFor(name: string, address: string, number: number): Promise<Report> {
  const document = await statsDocument(world.service, { prefix: "k-", limit: 10_000 - number, address });
  told.push(name);
  return JSON.parse(document) as Report;
}

/** Ends a turn, and lets everything that waits for it go on. Returns the number of keys that were looked at in it. */
async function turn(): Promise<number> {
  const before = looks;
  world.runtime.endTurn();
  for (let tick = 0; tick < 50; tick += 1) await Promise.resolve();
  return looks - before;
}

it("two reports are made at a time, in small commands: a bystander is answered in its turn", async () => {
  const bystander = world.connect();
  await turn();
  const asked = Array.from({ length: 12 }, (_, number) => askFor("report", `192.0.2.${number % 6}`, number));
  let isOver = false;
  const all = Promise.all(asked).finally(() => {
    isOver = true;
  });
  let most = 0;
  for (let turns = 0; turns < 2_000 && !isOver; turns += 1) {
    bystander.ask("ping");
    most = Math.max(most, await turn());
    expect(bystander.lines.length).toBe(turns + 1);
  }
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2 * NAMES_AT_ONCE);
  expect((await all).map(({ locks }) => locks.length)).toEqual(asked.map((_, number) => 10_000 - number));
});

it("an address that asks for many waits for itself, not others for it", async () => {
  told.length = 0;
  const asked = [
    ...Array.from({ length: 10 }, (_, number) => askFor(`greedy ${number}`, "192.0.2.1", number)),
    askFor("modest", "192.0.2.2", 100),
    // Equal to a question that the other one has yet to wait for.
    askFor("equal", "192.0.2.3", 9),
  ];
  let isOver = false;
  const all = Promise.all(asked).finally(() => {
    isOver = true;
  });
  for (let turns = 0; turns < 2_000 && !isOver; turns += 1) await turn();
  await all;
  expect(told.slice(0, 5)).toEqual(expect.arrayContaining(["greedy 0", "modest", "equal"]));
  expect(told.length).toBe(12);
});

it("equal questions that wait share an answer", async () => {
  const before = looks;
  const first = Array.from({ length: 3 }, (_, number) => askFor("first", "192.0.2.1", number));
  const later: Promise<Report>[] = [];
  let isOver = false;
  const isDone = Promise.all(first).finally(() => {
    isOver = true;
  });
  for (let turns = 0; turns < 2_000 && !isOver; turns += 1) {
    if (turns < 20) later.push(askFor("later", `198.51.100.${turns}`, 50));
    await turn();
  }
  await Promise.all([isDone, ...later]);
  // Two of them: one was under way when the others asked.
  expect(looks - before).toBeLessThan(6 * 10_000);
});

it("an address may have so many reports waiting, and is refused more: its clients may have hung up", async () => {
  const ask = (number: number, address: string) =>
    statsDocument(world.service, { prefix: `none-${number}`, address }).then(JSON.parse);
  const flood = Array.from({ length: 1_000 }, (_, number) => ask(number, "192.0.2.1"));
  const other = ask(-1, "192.0.2.2");
  let isOver = false;
  const all = Promise.allSettled(flood).finally(() => {
    isOver = true;
  });
  for (let turns = 0; turns < 5_000 && !isOver; turns += 1) await turn();
  const made = (await all).filter(({ status }) => status === "fulfilled");
  expect(made.length).toBe(256);
  expect(await other).toMatchObject({ locks: [] });
});
