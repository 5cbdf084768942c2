import { within } from "../pacing/within.ts";

/** A client waits for a place under a cap, and for the shards if the directory has to ask them. Then it hears an error. */
const ADMITS_WITHIN_MS = 15_000;

/** The directory's answer to a request for a place under a cap. A place that it gives later is taken back when a report looks. */
export async function admission<Answer>(asked: Promise<Answer>): Promise<Answer> {
  const answer = await within(ADMITS_WITHIN_MS, asked);
  if (answer === undefined) throw new Error("the directory has not answered");
  return answer;
}
