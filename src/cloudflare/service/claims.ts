import type { ClaimCommand, ClaimOutcome } from "../../core/engine/index.ts";
import { logged } from "../../log.ts";
import type { ClaimEnd, Left } from "../../service.ts";
import type { RemoteKeys } from "../calls/remote-keys.ts";
import type { WaitUntil } from "./cloudflare-service.ts";
import { endOfPoll, reportHangUp } from "./poll.ts";

/** Pauses before asking again if the key was lost while its client waited. */
const RETRY_PAUSES_MS = [50, 200, 800, 1_600];
const WITHDRAWAL_PAUSES_MS = [100, 400, 1_600, 5_000];

/** Claims of holders without a session, carried to the objects of their keys. A claim whose outcome stays unknown is withdrawn. */
export class Claims {
  readonly #keys: Pick<RemoteKeys, "command" | "listen">;
  readonly #waitUntil: WaitUntil;

  constructor(keys: Pick<RemoteKeys, "command" | "listen">, waitUntil: WaitUntil) {
    this.#keys = keys;
    this.#waitUntil = waitUntil;
  }

  /** Makes a claim, and waits for up to its `waitMs`. It is withdrawn if the signal is aborted before its end is handed over. */
  make(key: string, command: ClaimCommand, signal: AbortSignal): Promise<ClaimEnd> {
    const claiming = this.#make(key, command, signal);
    // Otherwise the Worker would end when the client leaves, and the claim could not be withdrawn.
    this.#waitUntil(claiming.catch(() => {}));
    return claiming;
  }

  /** Makes a claim without waiting, with one call. It may be made again, with `make`, if the answer is `would_wait`. */
  attempt(key: string, command: ClaimCommand): Promise<ClaimOutcome> {
    const claiming = this.#orWithdraw(key, command.request, () => this.#claim(key, { ...command, mayWait: false }));
    this.#waitUntil(claiming.catch(() => {}));
    return claiming;
  }

  /** Withdraws a claim and whatever it was granted, retrying if its key cannot be reached. */
  async withdraw(key: string, request: string): Promise<void> {
    for (const pauseMs of [...WITHDRAWAL_PAUSES_MS, undefined]) {
      try {
        await this.#keys.command(key, { type: "cancel", request });
        return;
      } catch (error) {
        if (pauseMs === undefined) logged("withdrawal_failed")(error);
        else await scheduler.wait(pauseMs);
      }
    }
  }

  async #make(key: string, command: ClaimCommand, signal: AbortSignal): Promise<ClaimEnd> {
    const { request, waitMs } = command;
    const askedAt = Date.now();
    const end = await this.#orWithdraw(key, request, async () => {
      const outcome = waitMs > 0 ? await this.#wait(key, command, signal) : await this.#claim(key, command);
      if (outcome.status === "queued" || outcome.status === "would_wait")
        throw new Error(`a claim was told ${outcome.status} at its end`);
      if (waitMs === 0) await reportHangUp(askedAt);
      return outcome;
    });
    if (!signal.aborted) return end;
    this.#waitUntil(this.withdraw(key, request));
    return { status: "left" };
  }

  #claim(key: string, command: ClaimCommand): Promise<ClaimOutcome> {
    return this.#keys.command(key, { type: "claim", command });
  }

  async #orWithdraw<Outcome>(key: string, request: string, ask: () => Promise<Outcome>): Promise<Outcome> {
    try {
      return await ask();
    } catch (error) {
      this.#waitUntil(this.withdraw(key, request));
      throw error;
    }
  }

  /**
   * Waits at the key, on a socket to its object. If the socket is lost, the same claim is made again: its place is
   * stored, so it keeps its position.
   */
  async #wait(key: string, command: ClaimCommand, signal: AbortSignal): Promise<ClaimOutcome | Left> {
    const deadline = Date.now() + command.waitMs;
    for (const pauseMs of [...RETRY_PAUSES_MS, undefined]) {
      const socket = await this.#keys.listen(key, command.request);
      const ending = endOfPoll<ClaimOutcome>(socket, signal);
      socket.send(JSON.stringify({ ...command, waitMs: Math.max(1, deadline - Date.now()) } satisfies ClaimCommand));
      const end = await ending;
      if (end.type === "answered") return end.outcome;
      if (end.type !== "lost" || signal.aborted) return { status: "left" };
      if (pauseMs !== undefined) await scheduler.wait(pauseMs);
    }
    throw new Error("the key was lost again and again");
  }
}
