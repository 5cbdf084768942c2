import type { Config } from "../config.ts";
import type { AcquireOutcome, WaitOutcome } from "../engine/index.ts";
import { type Status, wireReply } from "../protocols/statuses.ts";
import type { Request } from "../protocols/wire/requests.ts";
import type { Holdings } from "./holdings.ts";
import type { Keys } from "./keys.ts";

/** A request that concerns a key. */
export type KeyRequest = Extract<Request, { readonly key: string }>;

/**
 * What becomes of a request: a reply; a wait at the key, which will send a notice; or nothing, because it would have
 * had to wait for a client that cannot hear the end of it.
 */
export type Reply = { readonly type: "reply"; readonly line: string } | { readonly type: "waiting" | "dropped" };

type RequestOf<Type extends KeyRequest["type"]> = Extract<KeyRequest, { readonly type: Type }>;

/** The name of a two-phase place among a session's things on a key. */
const PLACE = "place";

const reply = (status: Status, ...fields: (string | number)[]): Reply => ({
  type: "reply",
  line: wireReply(status, ...fields),
});

/** Puts the requests of one session to keys, and keys' answers into reply lines. */
export class Operations {
  readonly #session: string;
  readonly #keys: Keys;
  readonly #holdings: Holdings;
  readonly #config: Config;

  constructor(session: string, keys: Keys, holdings: Holdings, config: Config) {
    this.#session = session;
    this.#keys = keys;
    this.#holdings = holdings;
    this.#config = config;
  }

  /** Carries out a request. If its outcome stays unknown it is withdrawn, and the reply is an error. */
  async perform(request: KeyRequest, id: string, { mayWait }: { mayWait: boolean }): Promise<Reply> {
    try {
      return await this.#perform(request, id, mayWait);
    } catch (error) {
      console.error(JSON.stringify({ event: "request_failed", type: request.type, error: String(error) }));
      if (request.type !== "release" && request.type !== "renew") await this.withdraw(request.key, id).catch(() => {});
      return reply("error");
    }
  }

  /** Asks what became of a waiting request; undefined while it still waits. One that the key has lost is an error. */
  async pickUp(key: string, id: string): Promise<string | undefined> {
    const outcome = await this.#keys.pickUp(key, id);
    switch (outcome.status) {
      case "granted":
        this.#holdings.turn(key, id, outcome.token);
        return wireReply("ok", outcome.token, outcome.leaseSeconds);
      case "timeout":
      case "lease_expired":
        return this.giveUp(key, id, outcome.status);
      case "unknown":
        return this.giveUp(key, id, "error");
      case "queued":
        return undefined;
    }
  }

  /** The reply to a request that waited in vain. */
  giveUp(key: string, id: string, status: Status): string {
    this.#holdings.drop(key, id);
    return wireReply(status);
  }

  async withdraw(key: string, id: string): Promise<void> {
    await this.#keys.cancel(key, id);
    this.#holdings.drop(key, id);
  }

  async #perform(request: KeyRequest, id: string, mayWait: boolean): Promise<Reply> {
    switch (request.type) {
      case "acquire":
        return this.#config.draining ? reply("draining") : this.#acquire(request, id, mayWait);
      case "enqueue":
        return this.#config.draining ? reply("draining") : this.#enqueue(request, id);
      case "wait":
        return this.#wait(request, id, mayWait);
      case "release": {
        const { status } = await this.#keys.release(request.key, request.token, this.#session);
        this.#holdings.drop(request.key, request.token);
        return reply(status === "released" ? "ok" : "not_held");
      }
      case "renew": {
        const outcome = await this.#keys.renew(request.key, request.token, this.#lease(request));
        return outcome.status === "renewed" ? reply("ok", outcome.leaseSeconds) : reply("not_held");
      }
    }
  }

  async #acquire(request: RequestOf<"acquire">, id: string, mayWait: boolean): Promise<Reply> {
    const { key, limit, waitSeconds } = request;
    this.#holdings.add(key, id);
    const outcome = await this.#keys.acquire(key, {
      session: this.#session,
      request: id,
      limit,
      leaseSeconds: this.#lease(request),
      waitMs: waitSeconds * 1000,
      mayWait,
    });
    return this.#waitable(key, id, outcome);
  }

  async #enqueue(request: RequestOf<"enqueue">, id: string): Promise<Reply> {
    const { key, limit } = request;
    this.#holdings.add(key, PLACE);
    const command = { session: this.#session, request: id, limit, leaseSeconds: this.#lease(request) };
    const outcome = await this.#keys.enqueue(key, command);
    switch (outcome.status) {
      case "granted":
        this.#holdings.add(key, PLACE);
        this.#holdings.add(key, outcome.token);
        return reply("acquired", outcome.token, outcome.leaseSeconds);
      case "queued":
      case "already_enqueued":
        // Again, because an earlier `enqueue` that was refused may have dropped it meanwhile.
        this.#holdings.add(key, PLACE);
        return reply(outcome.status);
      default:
        this.#holdings.drop(key, PLACE);
        return reply(outcome.status);
    }
  }

  async #wait({ key, waitSeconds }: RequestOf<"wait">, id: string, mayWait: boolean): Promise<Reply> {
    const command = { session: this.#session, request: id, waitMs: waitSeconds * 1000, mayWait };
    const outcome = await this.#keys.wait(key, command);
    // A second `wait` beside a first is refused, and the place still belongs to the first.
    if (outcome.status === "not_enqueued") return reply("not_enqueued");
    this.#holdings.turn(key, PLACE, id);
    return this.#waitable(key, id, outcome);
  }

  #lease({ leaseSeconds }: { readonly leaseSeconds: number | undefined }): number {
    return leaseSeconds ?? this.#config.defaultLeaseSeconds;
  }

  #waitable(key: string, id: string, outcome: AcquireOutcome | WaitOutcome): Reply {
    switch (outcome.status) {
      case "granted":
        this.#holdings.turn(key, id, outcome.token);
        return reply("ok", outcome.token, outcome.leaseSeconds);
      case "queued":
        return { type: "waiting" };
      case "would_wait":
        return { type: "dropped" };
      default:
        this.#holdings.drop(key, id);
        return reply(outcome.status);
    }
  }
}
