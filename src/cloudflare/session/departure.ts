import { VANISHED } from "../../core/session/socket-session.ts";
import { answerClose } from "../calls/closing.ts";
import type { HostParts } from "./host-parts.ts";
import { inTurn } from "./paced-returns.ts";

/** When the launcher dies, its guard kills workerd, within milliseconds unless the machine is busy. */
const GUARD_KILLS_WITHIN_MS = 250;

/** The end of a socket: the session waits for its client to come back, or ends. */
export class Departure {
  readonly #host: HostParts;
  /** A message has arrived since the object started. */
  #hasHeard = false;
  /** The client has left, and its session ends when its turn comes. */
  #isDue = false;
  /** Set once the session ends. */
  #ending: Promise<void> | undefined;

  constructor(host: HostParts) {
    this.#host = host;
  }

  /** Whether the client has left for good, though its session may not have ended yet. */
  get isDue(): boolean {
    return this.#isDue;
  }

  heard(): void {
    this.#hasHeard = true;
  }

  async closed(socket: WebSocket, code: number): Promise<void> {
    const { place, session, runner, sockets, telemetry } = this.#host;
    sockets.closed(socket);
    answerClose(socket, code);
    if (sockets.isReplaced(socket)) return;
    if (session.survives(code, session.conversation?.isKnown ?? sockets.wasKnown(socket))) {
      runner.run(() => session.detach());
      return;
    }
    if (code === VANISHED) await this.#outliveLauncher();
    if (this.#host.turns.isInRush(session.conversation?.resumedAt)) await this.#endInTurn();
    else await this.#end();
    if (this.#hasHeard || !session.hasHungUp) return;
    await telemetry.settled();
    // A socket on which no message ever arrived keeps its TCP connection when the server closes first (workerd
    // 2026-11). Nothing is left of the session here: dropping the object drops the connection.
    await place.abandon();
  }

  async broken(socket: WebSocket): Promise<void> {
    const { session, runner, sockets } = this.#host;
    if (sockets.isReplaced(socket)) return;
    if (session.resumption.isOn) {
      runner.run(() => session.detach());
      return;
    }
    await this.#outliveLauncher();
    await this.#end();
  }

  /** The session ends: leaves its keys and the directory. */
  begin(): void {
    const { place, own, sockets, telemetry } = this.#host;
    sockets.drop();
    telemetry.log("debug", "session_ended");
    this.#ending = own.activity.during(() => this.#leave());
    place.waitUntil(this.#ending);
  }

  /** Resolves when the keys that can be reached have been left, and the session is no longer listed. */
  async settled(): Promise<void> {
    await this.#ending;
    await this.#host.runner.hasLeft();
  }

  /**
   * Self-hosted, a broken connection may mean that the launcher was killed and this process is about to be: then the
   * client has not left, and everything stays as stored. Resolves if the process survives.
   */
  async #outliveLauncher(): Promise<void> {
    if (this.#host.env.SELF_HOSTED === undefined) return;
    this.#host.session.hangUp();
    await scheduler.wait(GUARD_KILLS_WITHIN_MS);
  }

  async #end(): Promise<void> {
    const { session, runner } = this.#host;
    runner.run(() => session.end());
    await this.#ending;
  }

  /** Clients that resume come first: they lose everything if they are too late, and a departure costs more than they do. */
  async #endInTurn(): Promise<void> {
    this.#isDue = true;
    this.#host.session.hangUp();
    await inTurn(this.#host.own.config.resumeGraceMs, () => this.#end());
  }

  async #leave(): Promise<void> {
    const { session, runner, sockets, listing } = this.#host;
    const address = session.resumption.address ?? sockets.entry?.address ?? "";
    await Promise.all([listing.leave(address), runner.hasLeft()]);
  }
}
