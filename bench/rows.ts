import { openLockClient } from "./client.ts";
import type { Lab } from "./servers.ts";

/** Rows written per acquire and release of a free lock on a key in use, by the kind of object that wrote them. */
export type RowsPerCycle = Readonly<Record<"key" | "session" | "directory", number>>;

const CYCLES = 200;
const KEY = "rows";

/** Counts in SQLite what one WebSocket client's uncontended cycles write. */
export async function countRows(lab: Lab): Promise<RowsPerCycle> {
  const server = await lab.start("counted");
  const address = server.addresses.ws;
  const client = await openLockClient("ws", address);
  const cycle = async () => client.release(KEY, await client.acquire(KEY, 0));
  const written = async () => {
    const response = await fetch(`http://${address.host}:${address.port}/rows-written?key=${KEY}`);
    return (await response.json()) as RowsPerCycle;
  };
  await cycle();
  const before = await written();
  for (let count = 0; count < CYCLES; count++) await cycle();
  const after = await written();
  client.close();
  await server.kill();
  const perCycle = (kind: keyof RowsPerCycle) => (after[kind] - before[kind]) / CYCLES;
  return { key: perCycle("key"), session: perCycle("session"), directory: perCycle("directory") };
}
