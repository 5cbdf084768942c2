/** What holders without a session may ask, by the book. */
import type { ClaimCommand, HoldSelector, RefreshCommand } from "../../../src/core/engine/index.ts";
import type { KeyModel } from "./key-model.ts";
import { fenceOf, type Hold, type Seen } from "./types.ts";

const CONFIRMED = "confirmed:";

export class SessionlessModel {
  readonly #key: KeyModel;

  constructor(key: KeyModel) {
    this.#key = key;
  }

  /** A claim with the holder's kind and mark is the holder's own. */
  claim(command: ClaimCommand, now: number, seen: Seen): object {
    const key = this.#key;
    key.evaluate(now);
    const { kind, mark } = command.sessionless;
    const hold = this.#newest;
    if (hold && mark !== undefined && hold.sessionless?.kind === kind && hold.sessionless.mark === mark) {
      this.#confirm(hold, now);
      return { status: "standing", ...this.#shown(now) };
    }
    const { request, waitMs, limit = 1, mayWait = true } = command;
    const outcome = key.acquire({ ...command, limit, mayWait }, now, seen);
    const isFull = waitMs === 0 && (outcome as { status: string }).status === "max_waiters";
    return this.#claimOutcome(isFull ? key.timeoutAtOnce() : outcome, request, now);
  }

  /** The state of a claim that waited. */
  collect(request: string, now: number): object {
    this.#key.evaluate(now);
    const confirmed = this.#granted(CONFIRMED + request, now);
    return confirmed ?? this.#claimOutcome(this.#key.pickUp(request, now), request, now);
  }

  /** The same claim again, after time has passed; undefined if the key does not know it. */
  repeat(request: string, now: number): object | undefined {
    const confirmed = this.#granted(CONFIRMED + request, now);
    if (confirmed) return confirmed;
    const again = this.#key.repeat(request);
    return again && this.#claimOutcome(again, request, now);
  }

  refresh(command: RefreshCommand, now: number, seen: Seen): object {
    const key = this.#key;
    key.evaluate(now);
    if (key.limit !== 1 && !(key.isPrunable(now) ?? !seen.isMismatch)) return { status: "limit_mismatch" };
    const refusal = this.#refusalOf(command, now);
    key.observations.push({ type: "renewed", result: refusal ? "error" : "ok" });
    const hold = this.#newest;
    if (refusal || !hold?.sessionless) return refusal ?? {};
    this.#confirm(hold, now);
    hold.leaseSeconds = command.leaseSeconds ?? hold.leaseSeconds;
    hold.expiresAt = now + hold.leaseSeconds * 1000;
    if (command.tag !== undefined) hold.sessionless = { ...hold.sessionless, tag: command.tag };
    key.touch(now);
    return { status: "refreshed", ...this.#shown(now) };
  }

  remove(selector: HoldSelector, now: number, id: string | undefined): object {
    this.#key.evaluate(now);
    if (this.#key.hasEnded(id)) return { status: "removed" };
    const refusal = this.#refusalOf(selector, now);
    const hold = this.#newest;
    if (refusal || !hold) return refusal ?? {};
    const removed = { status: "removed", ...this.#shown(now) };
    this.#key.ends(id);
    if (hold.isReported) this.#key.free(hold, "released", now);
    else this.#key.takeAway(hold, "stolen", now);
    this.#key.promote(now);
    return removed;
  }

  /** Once another request has been told of the hold, no request can withdraw it. */
  #confirm(hold: Hold, now: number): void {
    if (!hold.isReported) this.#key.report(hold, now);
    if (!hold.request.startsWith(CONFIRMED)) hold.request = CONFIRMED + hold.request;
  }

  get #newest(): Hold | undefined {
    return this.#key.holds.reduce<Hold | undefined>(
      (newest, hold) => (newest && newest.token > hold.token ? newest : hold),
      undefined,
    );
  }

  /** The newest hold, as holders without a session are told of it. */
  #shown(at: number): { hold?: object } {
    return this.#newest ? { hold: shownOf(this.#newest, at) } : {};
  }

  /** The reply to the claim that has this hold. */
  #granted(request: string, at: number): object | undefined {
    const hold = this.#key.holds.find((each) => each.request === request);
    return hold && { status: "granted", token: hold.token, hold: shownOf(hold, at) };
  }

  #claimOutcome(outcome: object, request: string, now: number): object {
    const { status } = outcome as { status: string };
    if (status === "granted") return this.#granted(request, now) ?? { status: "granted, and not held" };
    if (status === "would_wait") return { status, at: now };
    if (status === "timeout") return { status, ...this.#shown(now) };
    if (status === "limit_mismatch") return { status, limit: this.#key.limit, ...this.#shown(now) };
    return { status: status === "unknown" ? "lease_expired" : status };
  }

  #refusalOf({ kind, which }: HoldSelector, now: number): object | undefined {
    const hold = this.#newest;
    if (!hold) return { status: "not_held" };
    if (this.#key.limit !== 1 || hold.sessionless?.kind !== kind) return { status: "foreign", ...this.#shown(now) };
    const isMeant =
      which.by === "any" ||
      (which.by === "fence" ? which.fences.includes(fenceOf(hold)) : hold.sessionless.mark === which.mark);
    return isMeant ? undefined : { status: "mismatch", ...this.#shown(now) };
  }
}

function shownOf({ session, request, token, leaseSeconds, expiresAt, sessionless }: Hold, at: number): object {
  const hold = { session, request, fence: fenceOf({ token }), leaseSeconds, expiresAt, at };
  return sessionless ? { ...hold, sessionless } : hold;
}
