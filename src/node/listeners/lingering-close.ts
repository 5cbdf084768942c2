import type { Duplex } from "node:stream";

const LINGER_MS = 500;

/** Sends a last reply, then reads on for a moment: closing with unread input resets the connection before it arrives. */
export function sendAndClose(client: Duplex, reply: string | Buffer): void {
  client.on("error", () => client.destroy());
  client.resume();
  client.end(reply);
  const timer = setTimeout(() => client.destroy(), LINGER_MS);
  timer.unref();
  client.once("close", () => clearTimeout(timer));
}
