import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Released } from "./asks.ts";
import type { HttpSessionParts } from "./parts.ts";

/** A session from its opening to its end, and its place in the directory meanwhile. */
export class SessionLifecycle {
  readonly #parts: HttpSessionParts;
  /** The directory is being asked to admit the session. */
  #isOpening = false;
  /** Set once the session ends; resolves when the keys have been left, and the session is no longer listed. */
  #ending: Promise<void> | undefined;

  constructor(parts: HttpSessionParts) {
    this.#parts = parts;
  }

  /** Opens the session unless a cap forbids it; a refused session leaves nothing behind. */
  async open(address: string, label: string | undefined): Promise<SessionAdmission> {
    const { ctx, session, runner, listing } = this.#parts;
    this.#isOpening = true;
    try {
      const refusal = await listing.join({ address, transport: "http", label });
      if (refusal) return refusal;
      runner.run(() => session.open(address, label));
      return "admitted";
    } catch (error) {
      ctx.waitUntil(listing.leave(address));
      throw error;
    } finally {
      this.#isOpening = false;
    }
  }

  relabel(label: string): void {
    const { session, listing } = this.#parts;
    listing.relabel(session.address, label);
  }

  /** Records that the client is alive, and what it has released; or ends the session if its time is up. */
  async saw(label: string | undefined, released: readonly Released[] = []): Promise<boolean> {
    const { session, runner } = this.#parts;
    const wasOver = session.isOver;
    const isThere = runner.run(() => {
      for (const { key, token } of released) session.released(key, token);
      return session.saw(label);
    });
    if (!isThere && !wasOver) await this.#ending;
    return isThere;
  }

  isLive(): boolean {
    const { session, runner } = this.#parts;
    return this.#isOpening || !runner.run(() => session.endIfSilent());
  }

  /** The alarm has fired. */
  async wake(): Promise<void> {
    const { wakeUp, session, runner } = this.#parts;
    wakeUp.clear();
    await this.#ending;
    runner.run(() => session.wake());
    await this.#ending;
  }

  /** Ends the session: once this resolves, everything it held is free. False if there was no session. */
  async end(released: readonly Released[] | undefined): Promise<boolean> {
    const { session, runner } = this.#parts;
    // If two calls race, the first one ends the session.
    if (!(await this.saw(undefined, released)) || session.isOver) return false;
    runner.run(() => session.end());
    await this.#ending;
    return true;
  }

  /** The session has ended: leaves its keys and the directory. */
  leave(): void {
    const { ctx, session, runner, listing } = this.#parts;
    const unlisted = listing.leave(session.address);
    ctx.waitUntil(unlisted);
    // A place under a cap is free once the session has ended.
    this.#ending = Promise.all([listing.isCapped("http") && unlisted, runner.hasLeft()]).then(() => {});
    ctx.waitUntil(this.#ending);
  }
}
