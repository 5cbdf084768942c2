/** The contract's sessions over the REST API: one HTTP session each, and for every request a connection of its own. */
import type { HttpExchange, HttpReply } from "../support/http-client.ts";

import { sleep } from "../support/poll.ts";
import { Api, type RestSession } from "../support/rest.ts";
import type { AcquireOptions, Harness, Outcome, Refusal, ReleaseOutcome, RenewOutcome, Session } from "./contract.ts";

const LOOK_EVERY_S = 0.05;
let names = 0;

export function restHarness(service: { readonly httpPort: number }): Harness {
  const api = new Api(service);
  const open = new Set<RestAdapter>();
  return {
    async session() {
      names += 1;
      const label = `contract-${names}`;
      const session = new RestAdapter(api, await api.session({ "X-Holdfast-Label": label }), label);
      open.add(session);
      return session;
    },
    sleep,
    freshKey() {
      names += 1;
      return `contract-rest-${names}`;
    },
    async close() {
      await Promise.all([...open].map((session) => session.end()));
    },
  };
}

/** One who waits, as the service shows it. */
interface Waiter {
  readonly label?: string;
  readonly since: string;
  /** Absent for a place that nobody waits on. */
  readonly timeout_in_s?: number;
}

/** Whether a waiter of the session is the request that was sent at this time. */
type IsIt = (waiter: Waiter, sentAt: number) => boolean;

class RestAdapter implements Session {
  private readonly api: Api;
  private readonly session: RestSession;
  private readonly label: string;
  /** Per key, when the last request on it has been seen there: the next one starts no sooner. */
  private readonly arrivals = new Map<string, Promise<void>>();
  private hasEnded = false;

  constructor(api: Api, session: RestSession, label: string) {
    this.api = api;
    this.session = session;
    this.label = label;
  }

  acquire(key: string, { limit, waitSeconds, leaseSeconds, signal }: AcquireOptions): Promise<Outcome> {
    const body = { acquire_timeout_s: waitSeconds, lease_ttl_s: leaseSeconds, ...limitOf(limit) };
    return this.inOrder(key, async (arrived) => {
      const asked = this.session.start(pathOf(key, limit), body);
      void this.seen(key, asked, ({ since }, sentAt) => Date.parse(since) >= sentAt).then(arrived);
      return outcomeOf(await cancellable(asked, signal));
    });
  }

  enqueue(key: string, { limit, leaseSeconds }: { limit: number; leaseSeconds?: number }): Promise<Outcome> {
    const body = { lease_ttl_s: leaseSeconds, ...limitOf(limit) };
    return this.inOrder(key, async () => outcomeOf(await this.session.post(`${pathOf(key, limit)}/enqueue`, body)));
  }

  wait(key: string, { waitSeconds }: { waitSeconds: number }): Promise<Outcome> {
    return this.inOrder(key, async (arrived) => {
      const asked = this.session.start(`/v1/locks/${key}/wait`, { timeout_s: waitSeconds });
      void this.seen(key, asked, () => true).then(arrived);
      return outcomeOf(await asked.reply);
    });
  }

  release(key: string, token: string): Promise<ReleaseOutcome> {
    return this.inOrder(key, async () => {
      const reply = await this.session.post(`/v1/locks/${key}/release`, { token });
      return reply.status === 204 ? { status: "ok" } : notHeld(reply);
    });
  }

  renew(key: string, token: string, leaseSeconds?: number): Promise<RenewOutcome> {
    return this.inOrder(key, async () => {
      const reply = await this.session.post(`/v1/locks/${key}/renew`, { token, lease_ttl_s: leaseSeconds });
      const lease = /^\{"remaining_s":([0-9]+)\}\n$/.exec(reply.body)?.[1];
      return reply.status === 200 && lease !== undefined ? { status: "ok", lease: Number(lease) } : notHeld(reply);
    });
  }

  async arrived(key: string): Promise<void> {
    await this.arrivals.get(key);
  }

  async end(): Promise<void> {
    if (this.hasEnded) return;
    this.hasEnded = true;
    const { status } = await this.session.end();
    if (status !== 204) throw new Error(`the session did not end: ${status}`);
  }

  /**
   * Runs a request once all earlier ones on the key have been seen there: two connections do not keep an order. It
   * counts as seen when it says so, and at the latest when it is over.
   */
  private inOrder<Result>(key: string, run: (arrived: () => void) => Promise<Result>): Promise<Result> {
    const { promise: arrival, resolve } = Promise.withResolvers<void>();
    const earlier = this.arrivals.get(key);
    this.arrivals.set(key, arrival);
    const result = (async () => {
      await earlier;
      try {
        return await run(resolve);
      } finally {
        resolve();
      }
    })();
    // Who ends the session under a request does not ask for its outcome.
    result.catch(() => undefined);
    return result;
  }

  /** Resolves when the key's queue shows the request that has just been sent, or it is over. */
  private async seen(key: string, { reply }: HttpExchange, isIt: IsIt): Promise<void> {
    const sentAt = Date.now();
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    reply.then(over, over);
    while (!isOver && !(await this.waiters(key)).some((waiter) => isIt(waiter, sentAt))) await sleep(LOOK_EVERY_S);
  }

  private async waiters(key: string): Promise<Waiter[]> {
    const { queue = [] } = JSON.parse((await this.api.get(`/v1/keys/${key}`)).body) as { queue?: Waiter[] };
    return queue.filter(({ label, timeout_in_s }) => label === this.label && timeout_in_s !== undefined);
  }
}

/** The reply to a request, or nothing if the signal takes it back first: by hanging up, as HTTP clients do. */
function cancellable(asked: HttpExchange, signal: AbortSignal | undefined): Promise<HttpReply | undefined> {
  if (!signal) return asked.reply;
  const cancelled = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    asked.reset();
    cancelled.resolve(undefined);
  });
  return Promise.race([asked.reply, cancelled.promise]);
}

const pathOf = (key: string, limit: number) => `/v1/${limit === 1 ? "locks" : "semaphores"}/${key}`;
const limitOf = (limit: number) => (limit === 1 ? {} : { limit });

const REFUSALS: Readonly<Record<string, Refusal>> = {
  limit_mismatch: "error_limit_mismatch",
  not_enqueued: "error_not_enqueued",
  already_enqueued: "error_already_enqueued",
  lease_expired: "error_lease_expired",
};

interface Said {
  readonly status?: string;
  readonly token?: string;
  readonly lease_ttl_s?: number;
  readonly error?: string;
}

function outcomeOf(reply: HttpReply | undefined): Outcome {
  if (!reply) return { status: "cancelled" };
  const { status, token, lease_ttl_s: lease, error = "" } = JSON.parse(reply.body) as Said;
  if (status === "timeout" || status === "queued") return { status };
  if ((status === "ok" || status === "acquired") && token !== undefined && lease !== undefined)
    return { status, token, lease };
  const refusal = REFUSALS[error];
  if (reply.status === 409 && refusal) return { status: refusal };
  throw new Error(`unexpected reply: ${reply.status} ${reply.body}`);
}

function notHeld({ status, body }: HttpReply): { readonly status: "error" } {
  if (status === 404 && (JSON.parse(body) as Said).error === "not_held") return { status: "error" };
  throw new Error(`unexpected reply: ${status} ${body}`);
}
