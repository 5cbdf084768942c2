import { type AddressInfo, createServer, type Server } from "node:net";
import { getSystemErrorMap } from "node:util";
import { DevFailure, type DevPort } from "./dev-settings.ts";

/** The ports that are free. `say` hears of the optional ones that are not; any other one that is taken is a failure. */
export async function freePorts(ports: readonly DevPort[], say: (line: string) => void): Promise<DevPort[]> {
  // Held until all are tried, so that a port given twice is noticed.
  const held: Server[] = [];
  const free: DevPort[] = [];
  try {
    for (const each of ports) {
      const found = await hold(each, held);
      if (typeof found !== "string") free.push(found);
      else if (each.isOptional) say(`${found}: going on without ${each.name}; choose another with ${each.flag}`);
      else throw new DevFailure(`${found}: choose another with ${each.flag}`, 1);
    }
  } finally {
    await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  }
  return free;
}

/** Listens on the port, any free one if it is 0, or says why that is impossible. */
function hold(each: DevPort, held: Server[]): Promise<DevPort | string> {
  const { host, port } = each;
  const server = createServer((client) => client.destroy());
  return new Promise((resolve) => {
    server.once("error", (error) => resolve(inWords(each, error)));
    server.listen({ port, ...(host !== "*" && { host }) }, () => {
      held.push(server);
      resolve({ ...each, port: (server.address() as AddressInfo).port });
    });
  });
}

function inWords(each: DevPort, { code, errno, message }: NodeJS.ErrnoException): string {
  if (code === "EADDRINUSE") return `port ${each.port} on ${each.host} is already in use`;
  const [, words = message] = getSystemErrorMap().get(errno ?? 0) ?? [];
  return `cannot listen on ${addressOf(each)}: ${words}`;
}

export function addressOf({ host, port }: Pick<DevPort, "host" | "port">): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
