import { logged } from "../../log.ts";
import { allDirectories } from "../calls/directories.ts";
import type { Env } from "../env.ts";

const READY_WITHIN_MS = 2_000;

/** New keys and sessions need the directory. All shards are asked, since any of them may be needed. */
export async function isReady(env: Env): Promise<boolean> {
  const pings = Promise.all(allDirectories(env).map((directory) => directory.ping()));
  const answers = pings
    .then(() => true)
    .catch((error: unknown) => {
      logged("directory_unreachable")(error);
      return false;
    });
  return Promise.race([answers, scheduler.wait(READY_WITHIN_MS).then(() => false)]);
}
