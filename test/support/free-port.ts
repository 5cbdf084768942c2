import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/** Below the range from which the system gives ports to everyone else (Linux 32768, others 49152). */
const OWN_PORTS = { first: 20_000, count: 12_000 };

/** A port for a process to listen on. Nobody gets it by chance before the process does: it has to be asked for. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = OWN_PORTS.first + randomInt(OWN_PORTS.count);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
