/** The two hosts, as one story sees them: `describe.each(HOSTS)("… on $name", (host) => …)`. */
import { startWorker } from "./cloudflare-server.ts";
import type { HttpExchange } from "./http-client.ts";
import { type ServerOptions, startServer, type TestServer } from "./server.ts";

export interface Host {
  readonly name: "Node" | "Cloudflare";
  /** A server of its own. It starts in a fraction of a second, so a file or a set of variables may have one. */
  start(options?: ServerOptions): Promise<TestServer>;
  /** How HTTP clients may hang up so that the service hears of it at once. */
  readonly hangUps: readonly (keyof HttpExchange & ("close" | "reset"))[];
}

export const NODE: Host = { name: "Node", start: startServer, hangUps: ["close", "reset"] };

export const CLOUDFLARE: Host = {
  name: "Cloudflare",
  start: startWorker,
  // workerd does not see that a client which waits for a reply has closed its side of the connection (2026-11).
  hangUps: ["reset"],
};

export const HOSTS: readonly Host[] = [NODE, CLOUDFLARE];
