import type { Config } from "../../config.ts";
import type { AcquireOutcome, WaitOutcome } from "../../engine/index.ts";
import { log } from "../../log.ts";
import type { Outcome, Status } from "../../protocols/statuses.ts";
import type { Request } from "../../protocols/wire/requests.ts";
import type { Activity } from "../awake/activity.ts";
import type { IsWanted, Keys } from "../calls/remote-keys.ts";
import type { Answered } from "../calls/replies.ts";
import type { StorageHealth } from "../storage-probe.ts";
import type { Holdings } from "./holdings.ts";
import type { SessionParts } from "./session-parts.ts";

/** A request that concerns a key. */
export type KeyRequest = Exclude<Extract<Request, { readonly key: string }>, { readonly type: "query" }>;

/**
 * What becomes of a request: an answer; a wait at the key, which will send a notice; or nothing, because it would have
 * to wait and its client can no longer receive the outcome.
 */
export type Fate = Answered | { readonly type: "waiting" } | { readonly type: "dropped" };

export interface Circumstances {
  /** False when the client has ended its input: it only gets what can be answered immediately. */
  readonly mayWait: boolean;
  /** Whether the answer is still needed. */
  readonly isWanted: IsWanted;
  /** False if the request may be repeated on another socket: a failed one is not withdrawn then. */
  readonly isAbandoned?: () => boolean;
  /** An earlier `wait` on the key, if there is one, has lost its client: this one takes over its place. */
  readonly takesOver?: true;
  /** A steal was already started under this id: it is not repeated, only its outcome is fetched. */
  readonly hasBegun?: boolean;
}

/** Pauses between retries for a key that does not answer. */
const RETRY_PAUSES_MS = [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000];

interface Withdrawal {
  isWanted: boolean;
  attempt: Promise<void>;
}

type RequestOf<Type extends KeyRequest["type"]> = Extract<KeyRequest, { readonly type: Type }>;

/** The name of a two-phase place among a session's things on a key. */
const PLACE = "place";

const answered = (status: Status, grant: Omit<Outcome, "status"> = {}): Fate => ({
  type: "answered",
  outcome: { status, ...grant },
});

/** Sends the requests of one session to keys, and records where it may have something. */
export class Operations {
  readonly #session: string;
  readonly #keys: Keys;
  readonly #holdings: Holdings;
  readonly #config: Config;
  readonly #storage: StorageHealth;
  /** Requests being withdrawn, by id. */
  readonly #withdrawals = new Map<string, Withdrawal>();
  readonly #activity: Activity;

  constructor({
    session,
    keys,
    holdings,
    config,
    storage,
    activity,
  }: Pick<SessionParts, "session" | "keys" | "holdings" | "config" | "storage" | "activity">) {
    this.#session = session;
    this.#keys = keys;
    this.#holdings = holdings;
    this.#config = config;
    this.#storage = storage;
    this.#activity = activity;
  }

  /** Performs a request. If its outcome stays unknown, it is withdrawn, and the reply is an error. */
  perform(request: KeyRequest, id: string, circumstances: Circumstances): Promise<Fate> {
    return this.#activity.during(() => this.#performOrWithdraw(request, id, circumstances));
  }

  async #performOrWithdraw(request: KeyRequest, id: string, circumstances: Circumstances): Promise<Fate> {
    try {
      // In all other cases start synchronously: a withdrawal that follows must not reach the key before the request.
      if (this.#withdrawals.has(id)) {
        await this.#remake(id);
        if (!circumstances.isWanted()) return { type: "dropped" };
      }
      return await this.#perform(request, id, circumstances);
    } catch (error) {
      log("error", "operation_failed", { type: request.type, error: String(error) });
      const mayHold = request.type !== "release" && request.type !== "renew";
      if (mayHold && circumstances.isAbandoned?.() !== false) await this.withdraw(request.key, id);
      return answered("unavailable");
    }
  }

  /** The outcome of a waiting request; undefined while it waits. A request that the key has lost is an error. */
  async pickUp(key: string, id: string): Promise<Outcome | undefined> {
    const outcome = await this.#activity.during(() => this.#keys.pickUp(key, id));
    switch (outcome.status) {
      case "granted":
        this.#holdings.turn(key, id, outcome.token);
        return { status: "ok", token: outcome.token, leaseSeconds: outcome.leaseSeconds };
      case "timeout":
      case "lease_expired":
        return this.giveUp(key, id, outcome.status);
      case "unknown":
        return this.giveUp(key, id, "error");
      case "queued":
        return undefined;
    }
  }

  /** The reply to a request that waited without being granted. */
  giveUp(key: string, id: string, status: Status): Outcome {
    this.#holdings.drop(key, id);
    return { status };
  }

  /** Withdraws a request. A key that cannot be reached now is retried while this object lives. */
  async withdraw(key: string, id: string): Promise<void> {
    const withdrawal = { isWanted: true, attempt: Promise.resolve() };
    this.#withdrawals.set(id, withdrawal);
    const isDone = await this.#activity.during(() => this.#tryWithdrawal(key, id, withdrawal));
    if (!isDone) void this.#activity.during(() => this.#withdrawLater(key, id, withdrawal));
  }

  async #tryWithdrawal(key: string, id: string, withdrawal: Withdrawal): Promise<boolean> {
    try {
      withdrawal.attempt = this.#keys.cancel(key, id);
      await withdrawal.attempt;
      this.#holdings.drop(key, id);
      if (this.#withdrawals.get(id) === withdrawal) this.#withdrawals.delete(id);
      return true;
    } catch (error) {
      log("warn", "withdrawal_failed", { error: String(error) });
      return false;
    }
  }

  async #withdrawLater(key: string, id: string, withdrawal: Withdrawal): Promise<void> {
    for (const pauseMs of RETRY_PAUSES_MS) {
      await scheduler.wait(pauseMs);
      if (!withdrawal.isWanted || (await this.#tryWithdrawal(key, id, withdrawal))) return;
    }
    this.#withdrawals.delete(id);
  }

  /** Stops the withdrawal of a repeated request and awaits the attempt in flight, so it cannot cancel the new one. */
  async #remake(id: string): Promise<void> {
    const withdrawal = this.#withdrawals.get(id);
    if (!withdrawal) return;
    withdrawal.isWanted = false;
    await withdrawal.attempt.catch(() => {});
    this.#withdrawals.delete(id);
  }

  /**
   * Like `pickUp`, for a key that does not answer: retries for a while. Undefined if all retries failed or the outcome
   * is no longer wanted. The hold may have reached the client another way, so nothing is withdrawn here.
   */
  chase(key: string, id: string, isWanted: IsWanted): Promise<Outcome | undefined> {
    return this.#activity.during(() => this.#chase(key, id, isWanted));
  }

  async #chase(key: string, id: string, isWanted: IsWanted): Promise<Outcome | undefined> {
    for (const pauseMs of RETRY_PAUSES_MS) {
      await scheduler.wait(pauseMs);
      if (!isWanted()) return undefined;
      const outcome = await this.pickUp(key, id).catch(() => undefined);
      if (outcome) return outcome;
    }
    return undefined;
  }

  /** A hold of the session has ended without the session releasing it. */
  lost(key: string, token: string): void {
    this.#holdings.drop(key, token);
  }

  async #perform(request: KeyRequest, id: string, circumstances: Circumstances): Promise<Fate> {
    switch (request.type) {
      case "acquire":
      case "enqueue": {
        if (this.#config.draining) return answered("draining");
        const mayStore = this.#storage.mayStore();
        if (mayStore !== true && !(await mayStore)) return answered("unavailable");
        if (mayStore !== true && !circumstances.isWanted()) return { type: "dropped" };
        return request.type === "acquire"
          ? this.#acquire(request, id, circumstances)
          : this.#enqueue(request, id, circumstances);
      }
      case "wait":
        return this.#wait(request, id, circumstances);
      case "release": {
        const { status } = await this.#keys.release(request.key, request.token, this.#session);
        this.#holdings.drop(request.key, request.token);
        return answered(status === "released" ? "ok" : "not_held");
      }
      case "renew": {
        const outcome = await this.#keys.renew(request.key, request.token, this.#lease(request));
        return outcome.status === "renewed"
          ? answered("ok", { leaseSeconds: outcome.leaseSeconds })
          : answered("not_held");
      }
    }
  }

  async #acquire(request: RequestOf<"acquire">, id: string, circumstances: Circumstances): Promise<Fate> {
    const { mayWait, isWanted, hasBegun } = circumstances;
    const { key, limit, steals } = request;
    if (hasBegun) return this.#stolenBefore(key, id);
    this.#holdings.add(key, id);
    const waitMs = request.waitSeconds * 1000;
    const claim = { session: this.#session, request: id, limit, leaseSeconds: this.#lease(request) };
    const command = { ...claim, waitMs, mayWait, ...(steals && { steals }) };
    const outcome = await this.#keys.acquire(key, command, isWanted);
    return this.#waitable(key, id, outcome);
  }

  /** Does not steal again: the current holder may have acquired the key after the steal. */
  async #stolenBefore(key: string, id: string): Promise<Fate> {
    const outcome = await this.#keys.pickUp(key, id);
    if (outcome.status === "granted") return this.#waitable(key, id, outcome);
    return { type: "answered", outcome: this.giveUp(key, id, "lease_expired") };
  }

  async #enqueue(request: RequestOf<"enqueue">, id: string, { isWanted }: Circumstances): Promise<Fate> {
    const { key, limit } = request;
    this.#holdings.add(key, PLACE);
    const command = { session: this.#session, request: id, limit, leaseSeconds: this.#lease(request) };
    const outcome = await this.#keys.enqueue(key, command, isWanted);
    switch (outcome.status) {
      case "granted":
        this.#holdings.turn(key, PLACE, outcome.token);
        return answered("acquired", { token: outcome.token, leaseSeconds: outcome.leaseSeconds });
      case "queued":
      case "already_enqueued":
        // Add it again: an earlier `enqueue` that was refused may have dropped it meanwhile.
        this.#holdings.add(key, PLACE);
        return answered(outcome.status);
      default:
        this.#holdings.drop(key, PLACE);
        return answered(outcome.status);
    }
  }

  async #wait(
    { key, waitSeconds }: RequestOf<"wait">,
    id: string,
    { mayWait, isWanted, takesOver }: Circumstances,
  ): Promise<Fate> {
    const waitMs = waitSeconds * 1000;
    const command = { session: this.#session, request: id, waitMs, mayWait, ...(takesOver && { takesOver }) };
    const outcome = await this.#keys.wait(key, command, isWanted);
    // A second concurrent `wait` is refused; the place still belongs to the first.
    if (outcome.status === "not_enqueued") return answered("not_enqueued");
    this.#holdings.turn(key, PLACE, id);
    return this.#waitable(key, id, outcome);
  }

  #lease({ leaseSeconds }: { readonly leaseSeconds: number | undefined }): number {
    return leaseSeconds ?? this.#config.defaultLeaseSeconds;
  }

  #waitable(key: string, id: string, outcome: AcquireOutcome | WaitOutcome): Fate {
    switch (outcome.status) {
      case "granted":
        this.#holdings.turn(key, id, outcome.token);
        return answered("ok", { token: outcome.token, leaseSeconds: outcome.leaseSeconds });
      case "queued":
        return { type: "waiting" };
      case "would_wait":
        return { type: "dropped" };
      default:
        this.#holdings.drop(key, id);
        return answered(outcome.status);
    }
  }
}
