import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { Upstream } from "./supervisor.ts";

const REACHED_WITHIN_MS = 5_000;
const REACH_AGAIN_MS = 20;

/**
 * A new connection to workerd; undefined if there is none in time. If workerd has just ended, waits for the next one,
 * even if its end is not known here yet: retrying is safe, because nothing was sent on a failed connection.
 */
export async function reach(upstream: Upstream): Promise<Socket | undefined> {
  const giveUpAt = performance.now() + REACHED_WITHIN_MS;
  for (;;) {
    const listen = await upstream.ready();
    if (!listen) return undefined;
    const connection = connect("path" in listen ? { path: listen.path } : { ...listen, noDelay: true });
    // Between two requests there is no other listener, and an unhandled error would end the server. A close follows it.
    connection.on("error", () => {});
    try {
      await once(connection, "connect");
      return connection;
    } catch {
      if (upstream.isEnding || performance.now() > giveUpAt) return undefined;
      await pause(REACH_AGAIN_MS);
    }
  }
}
