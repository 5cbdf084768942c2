import type { Config } from "../config.ts";
import { type Status, wireReply } from "../protocols/statuses.ts";
import type { Request } from "../protocols/wire/requests.ts";
import type { Keys } from "./keys.ts";

/** A request that concerns a key. */
export type KeyRequest = Extract<Request, { readonly key: string }>;

/**
 * What becomes of a request: a reply; a wait at the key, which will send a notice; or nothing, because it would have
 * had to wait for a client that cannot hear the end of it.
 */
export type Reply = { readonly type: "reply"; readonly line: string } | { readonly type: "waiting" | "dropped" };

/** Outcomes of requests for a slot that need no words of their own. */
type Plain =
  | "timeout"
  | "limit_mismatch"
  | "max_locks"
  | "max_waiters"
  | "already_enqueued"
  | "not_enqueued"
  | "lease_expired";

const reply = (status: Status, ...fields: (string | number)[]): Reply => ({
  type: "reply",
  line: wireReply(status, ...fields),
});

/** Puts the requests of one session to keys, and keys' answers into reply lines. */
export class Operations {
  readonly #session: string;
  readonly #keys: Keys;
  readonly #config: Config;

  constructor(session: string, keys: Keys, config: Config) {
    this.#session = session;
    this.#keys = keys;
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
        return wireReply("ok", outcome.token, outcome.leaseSeconds);
      case "timeout":
      case "lease_expired":
        return wireReply(outcome.status);
      case "unknown":
        return wireReply("error");
      case "queued":
        return undefined;
    }
  }

  withdraw(key: string, id: string): Promise<void> {
    return this.#keys.cancel(key, id);
  }

  async #perform(request: KeyRequest, id: string, mayWait: boolean): Promise<Reply> {
    const session = this.#session;
    switch (request.type) {
      case "acquire": {
        if (this.#config.draining) return reply("draining");
        const { key, limit, waitSeconds } = request;
        const leaseSeconds = this.#lease(request);
        const waitMs = waitSeconds * 1000;
        const command = { session, request: id, limit, leaseSeconds, waitMs, mayWait };
        return this.#waitable(await this.#keys.acquire(key, command));
      }
      case "wait": {
        const command = { session, request: id, waitMs: request.waitSeconds * 1000, mayWait };
        return this.#waitable(await this.#keys.wait(request.key, command));
      }
      case "enqueue": {
        if (this.#config.draining) return reply("draining");
        const command = { session, request: id, limit: request.limit, leaseSeconds: this.#lease(request) };
        const outcome = await this.#keys.enqueue(request.key, command);
        if (outcome.status === "granted") return reply("acquired", outcome.token, outcome.leaseSeconds);
        return reply(outcome.status);
      }
      case "release": {
        const { status } = await this.#keys.release(request.key, request.token, session);
        return reply(status === "released" ? "ok" : "not_held");
      }
      case "renew": {
        const outcome = await this.#keys.renew(request.key, request.token, this.#lease(request));
        return outcome.status === "renewed" ? reply("ok", outcome.leaseSeconds) : reply("not_held");
      }
    }
  }

  #lease({ leaseSeconds }: { readonly leaseSeconds: number | undefined }): number {
    return leaseSeconds ?? this.#config.defaultLeaseSeconds;
  }

  #waitable(
    outcome:
      | { readonly status: "granted"; readonly token: string; readonly leaseSeconds: number }
      | { readonly status: "queued" | "would_wait" | Plain },
  ): Reply {
    switch (outcome.status) {
      case "granted":
        return reply("ok", outcome.token, outcome.leaseSeconds);
      case "queued":
        return { type: "waiting" };
      case "would_wait":
        return { type: "dropped" };
      default:
        return reply(outcome.status);
    }
  }
}
