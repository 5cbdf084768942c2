import fc from "fast-check";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Step, Story } from "./story.ts";

/** More of them by hand: `RACES=20000 npx vitest run --project pure test/client/pure/more-races.test.ts`. */
const RUNS = Number(process.env.RACES ?? 800);
const MS_PER_RUN = 100;

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeAll(() => {
  process.on("unhandledRejection", note);
  // Pauses before attempts, which would otherwise differ when a story is told again.
  vi.spyOn(Math, "random").mockReturnValue(0.5);
});
afterAll(() => {
  process.off("unhandledRejection", note);
  vi.restoreAllMocks();
});

const client = fc.nat({ max: 2 });
const some = fc.nat({ max: 20 });
const maybe = (...values: readonly number[]) => fc.constantFrom(undefined, undefined, ...values);
const terms = { lease: maybe(1_000, 5_000, 12_000, 25_000), timeout: maybe(0, 1_000, 3_000), maxHold: maybe(2_000) };
const which = fc.array(some, { minLength: 1, maxLength: 8 });
const kept = fc.constantFrom(0, 0, 1, 2, 5);
const type = <Type extends string>(...types: readonly Type[]) => fc.constantFrom(...types);
const ms = (...values: readonly number[]) => fc.constantFrom(...values);

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 28, arbitrary: fc.record({ type: type("arrive"), which, isInOneGo: fc.boolean() }) },
  { weight: 8, arbitrary: fc.record({ type: type("calm") }) },
  { weight: 10, arbitrary: fc.record({ type: type("pass"), ms: ms(20, 100, 400, 1_000, 2_600, 9_000) }) },
  { weight: 1, arbitrary: fc.record({ type: type("sleep"), ms: ms(2_000, 11_000) }) },
  { weight: 1, arbitrary: fc.record({ type: type("forget") }) },
  { weight: 14, arbitrary: fc.record({ type: type("acquire", "acquire", "steal", "steal", "try"), client, ...terms }) },
  { weight: 10, arbitrary: fc.record({ type: type("sticky"), client, ...terms, maxIdle: maybe(300, 2_000) }) },
  { weight: 6, arbitrary: fc.record({ type: type("enqueue"), client, lease: terms.lease }) },
  { weight: 8, arbitrary: fc.record({ type: type("wait"), ticket: some, ...terms }) },
  { weight: 2, arbitrary: fc.record({ type: type("leave"), ticket: some }) },
  { weight: 6, arbitrary: fc.record({ type: type("abort"), wish: some }) },
  { weight: 6, arbitrary: fc.record({ type: type("release"), lock: some }) },
  { weight: 4, arbitrary: fc.record({ type: type("cut"), client, up: kept, down: kept }) },
  { weight: 3, arbitrary: fc.record({ type: type("outage"), client, ms: ms(300, 4_000, 9_900, 11_000) }) },
  { weight: 3, arbitrary: fc.record({ type: type("down", "up", "up"), client }) },
  { weight: 1, arbitrary: fc.record({ type: type("close"), client }) },
);

it(
  "whatever is asked, lost, aborted and closed in whatever order: nobody believes in what he can know is not his, and nothing is left behind",
  async () => {
    const parties = fc.record({ limit: fc.constantFrom(1, 1, 2), clients: fc.constantFrom(2, 3) });
    const steps = fc.array(step, { minLength: 1, maxLength: 80, size: "max" });
    await fc.assert(
      fc.asyncProperty(parties, steps, async (party, events) => {
        const story = new Story(party);
        try {
          await story.run(events);
          expect(unhandled).toEqual([]);
        } catch (error) {
          throw new Error(`${error}, after\n${story.log.join("\n")}`, { cause: error });
        }
      }),
      { numRuns: RUNS },
    );
  },
  RUNS * MS_PER_RUN,
);
