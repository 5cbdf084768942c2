import type { Duplex } from "node:stream";

export interface HangUp {
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal;
  /** Stops watching, so that another reader can take over. */
  stop(): void;
}

/**
 * Watches a client from which nothing is read yet: a stream without a reader does not report its end. What the client
 * sends meanwhile stays in the stream's own buffer, which is bounded. With `isEndFinal`, the end of its input is a
 * hang-up; a TCP client may end its input and still wait for answers.
 */
export function watchHangUp(client: Duplex, { isEndFinal }: { readonly isEndFinal: boolean }): HangUp {
  const gone = new AbortController();
  const leave = () => gone.abort("the client hung up");
  // Reading zero bytes makes a stream whose input has ended report it.
  const look = () => void client.read(0);
  client.on("readable", look).on("error", leave).on("close", leave);
  if (isEndFinal) client.on("end", leave);
  if (client.destroyed || (isEndFinal && client.readableEnded)) leave();
  else look();
  return {
    signal: gone.signal,
    stop() {
      client.off("readable", look).off("error", leave).off("close", leave).off("end", leave);
    },
  };
}
