import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { Upstream } from "./supervisor.ts";

const REACHED_WITHIN_MS = 5_000;
const REACH_AGAIN_MS = 20;

/**
 * A new connection to workerd; undefined if none can be had in time. One that has just ended is waited for, also before its
 * end is known here: nothing has been sent on a connection that did not come about.
 */
export async function reach(upstream: Upstream): Promise<Socket | undefined> {
  const giveUpAt = performance.now() + REACHED_WITHIN_MS;
  for (;;) {
    const listen = await upstream.ready();
    if (!listen) return undefined;
    const connection = connect("path" in listen ? { path: listen.path } : { ...listen, noDelay: true });
    // Between two requests nobody else listens, and an error that nobody hears would end the server. A close follows it.
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
