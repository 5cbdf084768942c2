import type { Duplex } from "node:stream";

const LINGER_MS = 500;

/** Sends last words and keeps reading for a moment: closing with unread input would reset the connection first. */
export function endWith(client: Duplex, words: string | Buffer): void {
  client.on("error", () => client.destroy());
  client.resume();
  client.end(words);
  const timer = setTimeout(() => client.destroy(), LINGER_MS);
  timer.unref();
  client.once("close", () => clearTimeout(timer));
}
