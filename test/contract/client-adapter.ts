/**
 * The contract's sessions through the client library. What the library has no word for, because it looks after its locks
 * itself (renewing by hand, releasing by token), is slipped in between its own requests.
 */
import type { Clock } from "../../src/client/clock.ts";
import { connect, type Lock, LockError, LockLostError, type Locks, type Ticket } from "../../src/client/index.ts";
import { sleep } from "../support/poll.ts";
import type { Ports } from "../support/wire-client.ts";
import type { AcquireOptions, Harness, Outcome, Refusal, ReleaseOutcome, RenewOutcome, Session } from "./contract.ts";

let keys = 0;

/** Timers of this clock never fire: the client renews nothing and gives up nothing, so leases run out as the stories want. */
const TIMELESS: Clock = { wall: Date.now, steady: () => performance.now(), after: () => () => {} };

export function clientHarness(ports: Ports): Harness {
  const open = new Set<ClientSession>();
  return {
    async session() {
      const session = new ClientSession(ports);
      open.add(session);
      await session.connected();
      return session;
    },
    sleep,
    freshKey() {
      keys += 1;
      return `contract-client-${keys}`;
    },
    async close() {
      await Promise.all([...open].map((session) => session.end()));
    },
  };
}

class ClientSession implements Session {
  private readonly locks: Locks;
  private readonly wire = new Eavesdropper();
  private readonly held = new Map<string, Lock>();
  private readonly tickets = new Map<string, Ticket>();
  private hasEnded = false;

  constructor(ports: Ports) {
    this.locks = connect(`ws://127.0.0.1:${ports.httpPort}`, { clock: TIMELESS, WebSocket: this.wire.WebSocket });
  }

  async connected(): Promise<void> {
    await this.locks.ready();
  }

  acquire(key: string, { limit, waitSeconds, leaseSeconds, signal }: AcquireOptions): Promise<Outcome> {
    const lease = leaseSeconds === undefined ? {} : { lease: leaseSeconds * 1000 };
    const options = { limit, timeout: waitSeconds * 1000, ...lease, ...(signal && { signal }) };
    return this.hold(this.locks.acquire(key, options));
  }

  async enqueue(key: string, { limit, leaseSeconds }: { limit: number; leaseSeconds?: number }): Promise<Outcome> {
    try {
      const lease = leaseSeconds === undefined ? {} : { lease: leaseSeconds * 1000 };
      this.tickets.set(key, await this.locks.enqueue(key, { limit, ...lease }));
    } catch (error) {
      return refusalOf(error);
    }
    // The library does not show the token of a place: it is not a lock yet.
    const [status, token = "", lease] = (this.wire.enqueued.get(key) ?? "").split(" ");
    return status === "acquired" ? { status, token, lease: Number(lease) } : { status: "queued" };
  }

  async wait(key: string, { waitSeconds }: { waitSeconds: number }): Promise<Outcome> {
    const ticket = this.tickets.get(key);
    return ticket ? this.hold(ticket.wait({ timeout: waitSeconds * 1000 })) : { status: "error_not_enqueued" };
  }

  async release(key: string, token: string): Promise<ReleaseOutcome> {
    const lock = this.held.get(token);
    if (lock?.key !== key) return { status: (await this.wire.ask("r", key, token)) === "ok" ? "ok" : "error" };
    this.held.delete(token);
    return { status: (await lock.release()) ? "ok" : "error" };
  }

  async renew(key: string, token: string, leaseSeconds?: number): Promise<RenewOutcome> {
    const [status, lease] = (await this.wire.ask("n", key, `${token} ${leaseSeconds ?? ""}`)).split(" ");
    return status === "ok" ? { status, lease: Number(lease) } : { status: "error" };
  }

  /** A session's requests on one key reach it in order: the answer to a vain release comes after all before it. */
  async arrived(key: string): Promise<void> {
    await this.wire.ask("r", key, "nobody");
  }

  async end(): Promise<void> {
    if (this.hasEnded) return;
    this.hasEnded = true;
    await this.locks.close();
  }

  private async hold(asked: Promise<Lock>): Promise<Outcome> {
    try {
      const lock = await asked;
      this.held.set(lock.token, lock);
      return { status: "ok", token: lock.token, lease: lock.lease / 1000 };
    } catch (error) {
      return refusalOf(error);
    }
  }
}

/** Listens to a client's connection, and says things on it that the client does not know of. */
class Eavesdropper {
  /** The last answer to an `enqueue`, by key. */
  readonly enqueued = new Map<string, string>();
  readonly WebSocket: new (
    url: string,
    protocols: string[],
  ) => WebSocket;
  private readonly asked = new Map<string, (answer: string) => void>();
  private socket: WebSocket | undefined;

  constructor() {
    const eavesdropper = this;
    this.WebSocket = class extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(url, protocols);
        eavesdropper.socket = this;
        this.addEventListener("message", ({ data }) => eavesdropper.hear(String(data)));
      }

      override send(text: string): void {
        const [, tag, key] = /^@(\S+) s?e\n(.*)\n/.exec(text) ?? [];
        if (tag !== undefined && key !== undefined)
          eavesdropper.asked.set(tag, (answer) => eavesdropper.enqueued.set(key, answer));
        super.send(text);
      }
    };
  }

  ask(command: string, key: string, arg: string): Promise<string> {
    const tag = `slipped-${this.asked.size}-${Math.random().toString(36).slice(2)}`;
    return new Promise((resolve) => {
      this.asked.set(tag, resolve);
      this.socket?.send(`@${tag} ${command}\n${key}\n${arg}\n`);
    });
  }

  private hear(line: string): void {
    const [, tag = "", answer = ""] = /^@(\S+) (.*)\n$/.exec(line) ?? [];
    this.asked.get(tag)?.(answer);
    this.asked.delete(tag);
  }
}

const REFUSALS: Readonly<Record<string, Refusal>> = {
  limit_mismatch: "error_limit_mismatch",
  max_locks: "error_max_locks",
  max_waiters: "error_max_waiters",
  not_enqueued: "error_not_enqueued",
  already_enqueued: "error_already_enqueued",
  draining: "error_draining",
};

function refusalOf(error: unknown): Outcome {
  if (error instanceof DOMException && error.name === "AbortError") return { status: "cancelled" };
  if (error instanceof LockLostError) return { status: "error_lease_expired" };
  if (!(error instanceof LockError)) throw error;
  if (error.code === "timeout") return { status: "timeout" };
  const refusal = REFUSALS[error.code];
  if (!refusal) throw error;
  return { status: refusal };
}
