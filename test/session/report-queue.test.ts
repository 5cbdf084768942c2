import { describe, expect, it } from "vitest";
import type { Outcome } from "../../src/core/protocols/statuses.ts";
import { ReportQueue } from "../../src/reports/report-queue.ts";

/** Promises that can be settled have been. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("the reports that one client asks for", () => {
  it("are made two at a time, in order, and each turn lasts until the report has had time to be sent", async () => {
    const { pauses, ask, begun, made } = story();
    for (const name of ["a", "b", "c", "d"]) ask(name);
    await settled();
    expect([begun, made]).toEqual([
      ["a", "b"],
      ["a", "b"],
    ]);
    // 8 MiB a second, with two at a time.
    expect(pauses.map(({ ms }) => ms)).toEqual([250, 250]);
    pauses[1]?.callback();
    await settled();
    expect(made).toEqual(["a", "b", "c"]);
  });

  it("are not made if they are no longer wanted when their turn comes", async () => {
    const { pauses, ask, begun, unwanted } = story();
    for (const name of ["a", "b", "c", "d"]) ask(name);
    unwanted.add("c");
    await settled();
    pauses[0]?.callback();
    await settled();
    expect(begun).toEqual(["a", "b", "d"]);
  });

  it("are forgotten if they are cancelled while others are made, however many they are", async () => {
    const { pauses, ask, begun, queue } = story();
    for (const name of ["a", "b"]) ask(name);
    await settled();
    let looks = 0;
    const isWanted = () => {
      looks += 1;
      return false;
    };
    const make = () => Promise.reject(new Error("made although it was cancelled"));
    for (let count = 0; count < 100_000; count += 1) queue.add({ isWanted, make, made: () => begun.push("cancelled") });
    ask("c");
    const looksBefore = looks;
    pauses[0]?.callback();
    await settled();
    expect(begun).toEqual(["a", "b", "c"]);
    // The others are not kept until their turn.
    expect(looks - looksBefore).toBeLessThan(2_048);
  });

  it("are errors if they cannot be made, and the next ones are made at once", async () => {
    const { pauses, queue } = story();
    const outcomes: Outcome[] = [];
    const make = () => Promise.reject(new Error("unreachable"));
    queue.add({ isWanted: () => true, make, made: (outcome) => outcomes.push(outcome) });
    await settled();
    expect([outcomes, pauses[0]?.ms]).toEqual([[{ status: "error" }], 0]);
  });
});

function story() {
  const pauses: { ms: number; callback: () => void }[] = [];
  const queue = new ReportQueue((ms, callback) => pauses.push({ ms, callback }));
  const begun: string[] = [];
  const made: string[] = [];
  const unwanted = new Set<string>();
  const document = "x".repeat(2 ** 20);
  const ask = (name: string) =>
    queue.add({
      isWanted: () => !unwanted.has(name),
      make: async () => {
        begun.push(name);
        return document;
      },
      made: () => made.push(name),
    });
  return { pauses, queue, begun, made, unwanted, ask };
}
