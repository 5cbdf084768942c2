import { momentOf } from "./clock.ts";
import { ConnectionError } from "./errors.ts";
import { leftMs, type WaitOptions } from "./locks/acquire.ts";
import type { Host } from "./locks/host.ts";
import { checkOptions } from "./options.ts";

/** How long to wait for a connection. */
export type ReadyOptions = Pick<WaitOptions, "signal" | "timeout">;

/** Resolves once the service answers on a connection. */
export async function ready(host: Host, options: ReadyOptions): Promise<void> {
  checkOptions("ready", options, "signal timeout");
  const { signal, timeout } = options;
  signal?.throwIfAborted();
  const since = momentOf(host.clock);
  const tooLate = () => new ConnectionError(`not connected within ${timeout} ms`, host.problem);
  while (!host.isReady || host.isLapsed) {
    const { session } = host;
    try {
      await host.ask({ command: "ping" }, { signal, withinMs: leftMs(host, timeout, since), tooLate });
      return;
    } catch (error) {
      // The session has ended: another one follows.
      if (session.end !== error) throw error;
    }
  }
}
