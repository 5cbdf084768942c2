import type { SessionSocket } from "./session-socket.ts";

/** Asks the client to send anything at all. */
export const PROBE = "! present\n";
const MAX_PATIENCE_MS = 2_000;
/** The client on the new socket needs most of the grace period itself. */
const PATIENCE_OF_GRACE = 1 / 4;

/** Checks whether the client of a socket that looks open is still there: a dead network path shows no close. */
export class PresenceProbe {
  readonly #patienceMs: number;
  #waiting: ((isThere: boolean) => void)[] = [];

  constructor(graceMs: number) {
    this.#patienceMs = Math.min(MAX_PATIENCE_MS, graceMs * PATIENCE_OF_GRACE);
  }

  heard(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(true);
  }

  /** The socket has closed meanwhile. */
  lost(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(false);
  }

  async isThere(line: SessionSocket): Promise<boolean> {
    const answer = Promise.withResolvers<boolean>();
    this.#waiting.push(answer.resolve);
    const timer = setTimeout(() => answer.resolve(false), this.#patienceMs);
    try {
      line.send(PROBE);
      return await answer.promise;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}
