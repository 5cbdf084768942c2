import type { Line } from "./line.ts";

/** Asks a client to say anything at all. */
export const PROBE = "! present\n";
const ANSWERS_WITHIN_MS = 2_000;

/** Finds out whether the client of a socket that looks open is still there: a dead network path shows no close. */
export class Presence {
  #waiting: ((isThere: boolean) => void)[] = [];

  heard(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(true);
  }

  /** The socket has closed meanwhile. */
  lost(): void {
    for (const resolve of this.#waiting.splice(0)) resolve(false);
  }

  async isThere(line: Line): Promise<boolean> {
    const answer = Promise.withResolvers<boolean>();
    this.#waiting.push(answer.resolve);
    const timer = setTimeout(() => answer.resolve(false), ANSWERS_WITHIN_MS);
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
