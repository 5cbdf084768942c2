import type { RemoteKeys } from "../calls/remote-keys.ts";
import { POLL_CLOSE } from "../calls/replies.ts";

/**
 * A socket that tells a key that the request of the Worker is still there. When that ends, for example because its client has
 * left, the socket closes, and the key withdraws the claim and what it was granted. The key may sleep meanwhile.
 *
 * Nothing is read from it. A socket that is accepted keeps the request of its Worker running after its client has left; one that
 * is not is dropped with it (workerd 2026-11).
 */
export class Presence {
  #socket: WebSocket | undefined;
  #hasEnded = false;

  /** Opens the socket, or another one in place of one that may be lost. */
  async open(keys: Pick<RemoteKeys, "listen">, key: string, request: string): Promise<void> {
    const socket = await keys.listen(key, request);
    this.#close();
    this.#socket = socket;
    if (this.#hasEnded) this.#close();
  }

  /** The claim no longer depends on the request. */
  end(): void {
    this.#hasEnded = true;
    this.#close();
  }

  #close(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.accept();
    socket?.close(POLL_CLOSE.delivered);
  }
}
