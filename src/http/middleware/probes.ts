import { allDirectories } from "../../cloudflare/calls/directories.ts";
import { readConfigOf } from "../../cloudflare/env.ts";
import { logged } from "../../log.ts";
import { json } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";

const READY_WITHIN_MS = 2_000;

export function getHealth(context: AppContext): Response {
  return json(context, { status: "ok" });
}

export async function getReady(context: AppContext): Promise<Response> {
  const result = readConfigOf(context.env);
  if (!result.ok) return json(context, { status: "misconfigured" }, 503);
  if (result.config.draining) return json(context, { status: "draining" }, 503);
  const isThere = await isDirectoryThere(context);
  return isThere ? json(context, { status: "ok" }) : json(context, { status: "unavailable" }, 503);
}

/** New keys and sessions need the directory. All shards are asked, since any of them may be needed. */
async function isDirectoryThere({ env }: AppContext): Promise<boolean> {
  const pings = Promise.all(allDirectories(env).map((directory) => directory.ping()));
  const answers = pings
    .then(() => true)
    .catch((error: unknown) => {
      logged("directory_unreachable")(error);
      return false;
    });
  return Promise.race([answers, scheduler.wait(READY_WITHIN_MS).then(() => false)]);
}
