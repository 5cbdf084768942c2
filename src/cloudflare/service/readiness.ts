import { waitUntil } from "cloudflare:workers";
import { logged } from "../../log.ts";
import { allDirectories } from "../calls/directories.ts";
import type { Env } from "../env.ts";
import { isRecent } from "../pacing/recent.ts";

const READY_WITHIN_MS = 2_000;
/** Anybody may ask, as often as they like: each isolate asks the shards this often. */
const ANSWER_KEPT_MS = 5_000;
/** The platform ends a question silently with its request. One that takes longer than any question may has ended. */
const LOST_AFTER_MS = 2 * READY_WITHIN_MS;
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 100;

let last: { readonly at: number; readonly answer: boolean } | undefined;
/** When the shards were asked, while they have not answered. */
let askedAt: number | undefined;

/**
 * Whether the directory answers, as of the last few seconds. All shards are asked, since any of them may be needed. Requests
 * that come meanwhile wait for the same answer: they share plain data and poll it, because the platform lets no request
 * await the promise of another.
 */
export async function isReady(env: Env): Promise<boolean> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    const now = Date.now();
    if (last && isRecent(now, last.at, ANSWER_KEPT_MS)) return last.answer;
    if (askedAt === undefined || !isRecent(now, askedAt, LOST_AFTER_MS)) {
      const asking = ask(env, now);
      // Others wait for it when its client has hung up.
      waitUntil(asking);
      return asking;
    }
    await scheduler.wait(pauseMs);
  }
}

/** Never rejects. */
async function ask(env: Env, now: number): Promise<boolean> {
  askedAt = now;
  const answer = await askAll(env);
  last = { at: Date.now(), answer };
  askedAt = undefined;
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
