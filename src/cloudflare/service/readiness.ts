import { logged } from "../../log.ts";
import { allDirectories } from "../calls/directories.ts";
import type { Env } from "../env.ts";

const READY_WITHIN_MS = 2_000;
/** Anybody may ask, as often as they like: the shards are asked this often by each isolate. */
const ANSWER_KEPT_MS = 5_000;

let last: { readonly at: number; readonly answer: boolean } | undefined;

/** Whether the directory answers, as of the last few seconds. All shards are asked, since any of them may be needed. */
export async function isReady(env: Env): Promise<boolean> {
  const now = Date.now();
  if (last && now >= last.at && now - last.at < ANSWER_KEPT_MS) return last.answer;
  // While the shards are asked, others hear the last answer.
  if (last) last = { at: now, answer: last.answer };
  const answer = await askAll(env);
  last = { at: Date.now(), answer };
  return answer;
}

async function askAll(env: Env): Promise<boolean> {
  const pings = Promise.all(allDirectories(env).map((directory) => directory.ping()));
  const answers = pings
    .then(() => true)
    .catch((error: unknown) => {
      logged("directory_unreachable")(error);
      return false;
    });
  return Promise.race([answers, scheduler.wait(READY_WITHIN_MS).then(() => false)]);
}
