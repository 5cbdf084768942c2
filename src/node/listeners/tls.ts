import type { Socket } from "node:net";
import { type SecureContext, TLSSocket } from "node:tls";

/** A longer delay makes a timer fire immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Resolves when the TLS handshake is complete. Closes and rejects if it fails or takes longer than `limitMs`. */
export function secured(client: Socket, secureContext: SecureContext, limitMs: number): Promise<TLSSocket> {
  const stream = new TLSSocket(client, { isServer: true, secureContext });
  stream.on("error", () => stream.destroy());
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => stream.destroy(), Math.min(limitMs, MAX_TIMER_MS));
    const fail = () => {
      clearTimeout(timer);
      client.destroy();
      reject(new Error("no TLS handshake"));
    };
    stream.once("close", fail);
    stream.once("secure", () => {
      clearTimeout(timer);
      stream.off("close", fail);
      resolve(stream);
    });
  });
}
