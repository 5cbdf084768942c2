import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the range from which the system gives ports to everyone else (Linux 32768, others 49152). */
const OWN_PORTS = { first: 20_000, count: 12_000 };
/** Each test process takes its ports from a block of its own, in turn: nobody else chooses one before it is used. */
const BLOCK = 200;

const first = OWN_PORTS.first + (process.pid % (OWN_PORTS.count / BLOCK)) * BLOCK;
let chosen = randomInt(BLOCK);

/** A port for a process to listen on. Nobody gets it by chance before the process does: it has to be asked for. */
export async function freePort(): Promise<number> {
  for (;;) {
    chosen += 1;
    const port = first + (chosen % BLOCK);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
