import { momentOf } from "./clock.ts";
import { ConnectionError } from "./errors.ts";
import { leftMs, type WaitOptions } from "./locks/acquire.ts";
import type { ClientContext } from "./locks/client-context.ts";
import { checkOptions } from "./options.ts";

/** How long to wait for a connection. */
export type ReadyOptions = Pick<WaitOptions, "signal" | "timeout">;

/** Resolves once the service answers on a connection. */
export async function ready(client: ClientContext, options: ReadyOptions): Promise<void> {
  checkOptions("ready", options, "signal timeout");
  const { signal, timeout } = options;
  signal?.throwIfAborted();
  const since = momentOf(client.clock);
  const tooLate = () => new ConnectionError(`not connected within ${timeout} ms`, client.problem);
  while (!client.isReady || client.isLapsed) {
    const { session } = client;
    try {
      await client.ask({ command: "ping" }, { signal, withinMs: leftMs(client, timeout, since), tooLate });
      return;
    } catch (error) {
      // The session has ended: another one follows.
      if (session.end !== error) throw error;
    }
  }
}
