import { expect } from "vitest";
import type { RunningServe } from "../cli/support.ts";
import { send } from "../support/http-client.ts";
import { ask, lock, openClient, TRANSPORTS } from "../support/wire-client.ts";

/** Fails unless the server is the same one that was started, and serves newcomers of every kind. */
export async function isServing({ child, port, httpPort }: RunningServe): Promise<void> {
  expect(child.exitCode).toBeNull();
  expect(await send(httpPort, { method: "GET", path: "/health" })).toMatchObject({ status: 200 });
  for (const transport of TRANSPORTS) {
    const client = await openClient(transport, { tcpPort: port, httpPort });
    expect(await ask(client, "r", "after-all", await lock(client, "after-all", "5"))).toBe("ok");
    client.close();
  }
}
