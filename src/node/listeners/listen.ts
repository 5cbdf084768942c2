import { createServer, type Socket } from "node:net";
import { type Address, formatAddress } from "./addresses.ts";
import { codeOf, Failure, reasonOf } from "./failure.ts";

const KEEP_ALIVE_MS = 30_000;

export interface Listener {
  readonly port: number;
  /** Stops listening; existing connections stay. Resolves when the last one is gone. */
  close(): Promise<void>;
}

/** Another program, or another server, listens on the port. */
export class PortTakenFailure extends Failure {}

/** Listens on an address; port 0 picks a free port. Rejects with a one-line `Failure` if it cannot. */
export function listen({ host, port }: Address, accept: (client: Socket) => void): Promise<Listener> {
  const server = createServer({
    allowHalfOpen: true,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
  server.on("connection", accept);
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      if (codeOf(error) === "EADDRINUSE") reject(new PortTakenFailure(`port ${port} on ${host} is already in use`));
      else reject(new Failure(`cannot listen on ${formatAddress({ host, port })}: ${reasonOf(error)}`));
    });
    server.listen({ port, backlog: 4_096, ...(host !== "*" && { host }) }, () => {
      server.on("error", () => {
        // A connection could not be accepted; the next one may be.
      });
      const address = server.address();
      resolve({
        port: typeof address === "object" && address ? address.port : port,
        close: () => new Promise((done) => server.close(() => done())),
      });
    });
  });
}
