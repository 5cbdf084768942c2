/** The contract's sessions over the REST API: one HTTP session each, and for every request a connection of its own. */
import { poll, sleep } from "../support/poll.ts";
import {
  type Asked,
  type HttpService,
  keyReport,
  type RestReply,
  RestSession,
  type WaitingMember,
} from "../support/rest-session.ts";
import type { AcquireOptions, Harness, Outcome, Refusal, ReleaseOutcome, RenewOutcome, Session } from "./contract.ts";

const ARRIVAL_DEADLINE_MS = 10_000;
let keys = 0;

export function restHarness(service: HttpService): Harness {
  const open = new Set<RestAdapter>();
  return {
    async session() {
      const session = new RestAdapter(await RestSession.open(service), service);
      open.add(session);
      return session;
    },
    sleep,
    freshKey() {
      keys += 1;
      return `contract-rest-${keys}`;
    },
    async close() {
      await Promise.all([...open].map((session) => session.end()));
    },
  };
}

class RestAdapter implements Session {
  private readonly session: RestSession;
  private readonly service: HttpService;
  /** Per key, when the last request on it has been seen there: the next one starts no sooner. */
  private readonly arrivals = new Map<string, Promise<unknown>>();
  private hasEnded = false;

  constructor(session: RestSession, service: HttpService) {
    this.session = session;
    this.service = service;
  }

  acquire(key: string, { limit, waitSeconds, leaseSeconds, signal }: AcquireOptions): Promise<Outcome> {
    const body = { acquire_timeout_s: waitSeconds, lease_ttl_s: leaseSeconds, ...limitOf(limit) };
    const isNewcomer = ({ since }: WaitingMember, sentAt: number) => Date.parse(since) >= sentAt;
    const start = () => this.session.start(pathOf(key, limit), body);
    return this.inOrder(key, async (arrived) => {
      const asked = this.watched(key, start, isNewcomer);
      asked.arrival.then(arrived, arrived);
      return outcomeOf(await cancellable(asked, signal));
    });
  }

  enqueue(key: string, { limit, leaseSeconds }: { limit: number; leaseSeconds?: number }): Promise<Outcome> {
    const body = { lease_ttl_s: leaseSeconds, ...limitOf(limit) };
    return this.inOrder(key, async () => outcomeOf(await this.session.ask(pathOf(key, limit, "enqueue"), body)));
  }

  wait(key: string, { waitSeconds }: { waitSeconds: number }): Promise<Outcome> {
    const start = () => this.session.wait(key, waitSeconds);
    return this.inOrder(key, async (arrived) => {
      const asked = this.watched(key, start, () => true);
      asked.arrival.then(arrived, arrived);
      return outcomeOf(await asked.reply);
    });
  }

  release(key: string, token: string): Promise<ReleaseOutcome> {
    return this.inOrder(key, async () => {
      const reply = await this.session.release(key, token);
      if (reply.status === 204) return { status: "ok" };
      return notHeld(reply);
    });
  }

  renew(key: string, token: string, leaseSeconds?: number): Promise<RenewOutcome> {
    return this.inOrder(key, async () => {
      const reply = await this.session.renew(key, token, leaseSeconds);
      const { remaining_s } = reply.body;
      return reply.status === 200 && remaining_s !== undefined ? { status: "ok", lease: remaining_s } : notHeld(reply);
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
   * Runs a request once all earlier ones on the key have been seen there; two connections would not keep their order.
   * It counts as seen when it says so, and at the latest when it is over.
   */
  private inOrder<Result>(key: string, run: (arrived: () => void) => Promise<Result>): Promise<Result> {
    const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>();
    const earlier = this.arrivals.get(key) ?? Promise.resolve();
    this.arrivals.set(key, arrival);
    const result = earlier.then(() => run(arrived));
    result.then(arrived, arrived);
    // Who is not interested in the outcome may leave it at that.
    result.catch(() => undefined);
    return result;
  }

  /** Starts a request that may wait; `arrival` resolves when the key's queue shows it, or it is answered. */
  private watched(
    key: string,
    start: () => Asked,
    isIt: (waiter: WaitingMember, sentAt: number) => boolean,
  ): Asked & { readonly arrival: Promise<unknown> } {
    const sentAt = Date.now();
    const asked = start();
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    asked.reply.then(over, over);
    const arrival = poll(`a request to reach ${key}`, ARRIVAL_DEADLINE_MS, async () => {
      const queue = isOver ? [] : ((await keyReport(this.service, key))?.queue ?? []);
      const waiting = queue.filter(
        ({ label, timeout_in_s }) => label === this.session.label && timeout_in_s !== undefined,
      );
      return isOver || waiting.some((waiter) => isIt(waiter, sentAt)) || undefined;
    });
    return { ...asked, arrival };
  }
}

/** The reply to a request, or nothing if the signal takes it back first: by hanging up, as HTTP clients do. */
function cancellable(asked: Asked, signal: AbortSignal | undefined): Promise<RestReply | undefined> {
  if (!signal) return asked.reply;
  const cancelled = Promise.withResolvers<undefined>();
  signal.addEventListener("abort", () => {
    asked.close();
    cancelled.resolve(undefined);
  });
  return Promise.race([asked.reply, cancelled.promise]);
}

function pathOf(key: string, limit: number, operation?: "enqueue"): string {
  const path = `/${limit === 1 ? "locks" : "semaphores"}/${encodeURIComponent(key)}`;
  return operation ? `${path}/${operation}` : path;
}

const limitOf = (limit: number) => (limit === 1 ? {} : { limit });

const REFUSALS: Readonly<Record<string, Refusal>> = {
  limit_mismatch: "error_limit_mismatch",
  not_enqueued: "error_not_enqueued",
  already_enqueued: "error_already_enqueued",
  lease_expired: "error_lease_expired",
};

function outcomeOf(reply: RestReply | undefined): Outcome {
  if (!reply) return { status: "cancelled" };
  const { status, token, lease_ttl_s, error } = reply.body;
  if (status === "timeout" || status === "queued") return { status };
  if ((status === "ok" || status === "acquired") && token !== undefined && lease_ttl_s !== undefined)
    return { status, token, lease: lease_ttl_s };
  const refusal = REFUSALS[error ?? ""];
  if (reply.status === 409 && refusal) return { status: refusal };
  throw new Error(`unexpected reply: ${reply.status} ${JSON.stringify(reply.body)}`);
}

function notHeld({ status, body }: RestReply): { readonly status: "error" } {
  if (status === 404 && body.error === "not_held") return { status: "error" };
  throw new Error(`unexpected reply: ${status} ${JSON.stringify(body)}`);
}
