import { setTimeout as pause } from "node:timers/promises";
import type { Crew, Result } from "./measure.ts";
import type { Options } from "./options.ts";

/** After a case the servers tidy up behind its clients; the next one is not to pay for that. */
const SETTLE_MS = 700;
const WARM_UP_MS = 500;

/** Crews take turns, each round in another order, so that whatever else the machine does hits all of them. */
export async function inTurns(
  crews: readonly Crew[],
  { seconds, rounds }: Pick<Options, "seconds" | "rounds">,
  isStopped: () => boolean,
): Promise<Result[]> {
  for (const crew of crews) await crew.warmUp(WARM_UP_MS, isStopped);
  for (let round = 0; round < rounds && !isStopped(); round++) {
    const first = round % crews.length;
    for (const crew of [...crews.slice(first), ...crews.slice(0, first)]) {
      await crew.work((seconds / rounds) * 1000, isStopped);
    }
  }
  for (const crew of crews) crew.close();
  await pause(SETTLE_MS);
  return crews.map((crew) => crew.result());
}
