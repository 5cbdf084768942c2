import { answerClose } from "../calls/closing.ts";
import type { SocketSessionParts } from "./parts.ts";

/** The end of a socket: the session waits for its client to come back, or ends. */
export class Departure {
  readonly #parts: SocketSessionParts;
  /** A message has arrived since the object started. */
  #hasHeard = false;
  /** Set once the session ends. */
  #ending: Promise<void> | undefined;

  constructor(parts: SocketSessionParts) {
    this.#parts = parts;
  }

  heard(): void {
    this.#hasHeard = true;
  }

  async closed(socket: WebSocket, code: number): Promise<void> {
    const { ctx, session, runner, sockets, telemetry } = this.#parts;
    sockets.closed(socket);
    answerClose(socket, code);
    if (sockets.isReplaced(socket)) return;
    if (session.survives(code, session.conversation?.isKnown ?? sockets.wasKnown(socket))) {
      runner.run(() => session.detach());
      return;
    }
    await this.#end();
    if (this.#hasHeard || !session.hasHungUp) return;
    await telemetry.settled();
    // A socket on which no message ever arrived keeps its TCP connection when the server closes first (workerd
    // 2026-11). Nothing is left of the session here: dropping the object drops the connection.
    await ctx.storage.sync();
    ctx.abort("session over");
  }

  async broken(socket: WebSocket): Promise<void> {
    const { session, runner, sockets } = this.#parts;
    if (sockets.isReplaced(socket)) return;
    if (session.resumption.isOn) runner.run(() => session.detach());
    else await this.#end();
  }

  /** The session ends: leaves its keys and the directory. */
  begin(): void {
    const { ctx, sockets, telemetry } = this.#parts;
    sockets.drop();
    telemetry.log("debug", "session_ended");
    this.#ending = this.#leave();
    ctx.waitUntil(this.#ending);
  }

  /** Resolves when the keys that can be reached have been left, and the session is no longer listed. */
  async settled(): Promise<void> {
    await this.#ending;
    await this.#parts.runner.hasLeft();
  }

  async #end(): Promise<void> {
    const { session, runner } = this.#parts;
    runner.run(() => session.end());
    await this.#ending;
  }

  async #leave(): Promise<void> {
    const { session, runner, sockets, listing } = this.#parts;
    const address = session.resumption.address ?? sockets.entry?.address ?? "";
    await Promise.all([listing.leave(address), runner.hasLeft()]);
  }
}
