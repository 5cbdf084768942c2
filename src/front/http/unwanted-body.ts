import type { IncomingMessage } from "node:http";

/** The Worker's limit for a body. */
const MAX_BYTES = 1_048_576;
const MAX_MS = 1_000;

/**
 * Reads and discards the rest of a body whose request has been answered: closing with unread input would reset the
 * connection, and a reset can overtake the answer. Calls back when the body has ended, is too long or takes too long.
 */
export function swallow(incoming: IncomingMessage, done: () => void): void {
  let bytes = 0;
  const stop = () => {
    clearTimeout(timer);
    incoming.off("data", count).off("end", stop).off("close", stop);
    done();
  };
  const count = (piece: Buffer) => {
    bytes += piece.length;
    if (bytes > MAX_BYTES) stop();
  };
  const timer = setTimeout(stop, MAX_MS);
  incoming.on("data", count).on("end", stop).on("close", stop);
  incoming.resume();
}
