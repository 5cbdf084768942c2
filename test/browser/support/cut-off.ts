import { connectTo, freshKey } from "../../client/support.ts";
import { startCutProxy } from "../../support/cut-proxy.ts";
import type { Stage } from "./stage.ts";

/** Somebody who held a key when the connection broke: the service keeps the lock for the grace, in case they come back. */
export interface CutOff extends AsyncDisposable {
  /** Whether the key is still kept: since the connection broke, less than the grace has passed for the service. */
  isKept(): Promise<boolean>;
}

/** A witness: what happens while its lock is kept did not wait for the end of a grace or of a lease, however slow the machine is. */
export async function cutOff({ server, observer }: Stage): Promise<CutOff> {
  const key = freshKey("cut-off");
  await using stack = new AsyncDisposableStack();
  const proxy = stack.use(await startCutProxy(() => server.httpPort));
  const client = stack.use(connectTo(proxy.port));
  await client.acquire(key);
  proxy.close();
  stack.defer(() => proxy.heal());
  const parts = stack.move();
  return {
    isKept: async () => (await observer.query(key))?.holders === 1,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}
