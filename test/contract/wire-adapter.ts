/** The contract's sessions over a real connection. Every request is tagged, so that several can be under way at once. */
import { sleep } from "../support/poll.ts";
import { openClient, type Ports, type Transport, type WireClient } from "../support/wire-client.ts";
import type { AcquireOptions, Harness, Outcome, Refusal, ReleaseOutcome, RenewOutcome, Session } from "./contract.ts";

const REPLY_DEADLINE_MS = 30_000;
let keys = 0;

export function wireHarness(transport: Transport, ports: Ports): Harness {
  const open = new Set<WireSession>();
  return {
    async session() {
      const session = new WireSession(await openClient(transport, ports));
      open.add(session);
      return session;
    },
    sleep,
    freshKey() {
      keys += 1;
      return `contract-${transport}-${keys}`;
    },
    async close() {
      await Promise.all([...open].map((session) => session.end()));
    },
  };
}

class WireSession implements Session {
  private readonly client: WireClient;
  private readonly inFlight = new Map<string, (reply: string) => void>();
  private readonly reading: Promise<void>;
  private tags = 0;
  private hasEnded = false;

  constructor(client: WireClient) {
    this.client = client;
    this.reading = this.read();
    // A failure shows at the next request; without one it must not crash the run.
    this.reading.catch(() => undefined);
  }

  async acquire(key: string, { limit, waitSeconds, leaseSeconds }: AcquireOptions): Promise<Outcome> {
    const lease = leaseSeconds ?? "";
    return outcomeOf(
      await (limit === 1
        ? this.ask("l", key, `${waitSeconds} ${lease}`)
        : this.ask("sl", key, `${waitSeconds} ${limit} ${lease}`)),
    );
  }

  async enqueue(key: string, { limit, leaseSeconds }: { limit: number; leaseSeconds?: number }): Promise<Outcome> {
    const lease = leaseSeconds ?? "";
    return outcomeOf(await (limit === 1 ? this.ask("e", key, `${lease}`) : this.ask("se", key, `${limit} ${lease}`)));
  }

  async wait(key: string, { waitSeconds }: { waitSeconds: number }): Promise<Outcome> {
    return outcomeOf(await this.ask("w", key, `${waitSeconds}`));
  }

  async release(key: string, token: string): Promise<ReleaseOutcome> {
    const reply = await this.ask("r", key, token);
    if (reply === "ok" || reply === "error") return { status: reply };
    throw new Error(`unexpected reply to a release: ${reply}`);
  }

  async renew(key: string, token: string, leaseSeconds?: number): Promise<RenewOutcome> {
    const reply = await this.ask("n", key, `${token} ${leaseSeconds ?? ""}`);
    if (reply === "error") return { status: "error" };
    const lease = /^ok ([0-9]+)$/.exec(reply)?.[1];
    if (lease === undefined) throw new Error(`unexpected reply to a renew: ${reply}`);
    return { status: "ok", lease: Number(lease) };
  }

  /** A session's requests on one key reach it in order: the answer to a vain release comes after all before it. */
  async arrived(key: string): Promise<void> {
    await this.release(key, "nobody");
  }

  async end(): Promise<void> {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.client.halfclose();
    await this.reading;
    this.client.close();
  }

  private ask(command: string, key: string, arg: string): Promise<string> {
    this.tags += 1;
    const tag = `t${this.tags}`;
    const reply = new Promise<string>((resolve) => this.inFlight.set(tag, resolve));
    this.client.send(`@${tag} ${command}\n${key}\n${arg}\n`);
    // A connection that breaks fails the request; one the test itself ended leaves it unanswered, as the protocol says.
    return Promise.race([reply, this.reading.then(() => new Promise<string>(() => undefined))]);
  }

  private async read(): Promise<void> {
    for (;;) {
      const line = await this.nextLine();
      if (line === undefined) return;
      const [, tag = "", reply = ""] = /^@(\S+) (.*)\n$/.exec(line) ?? [];
      const answer = this.inFlight.get(tag);
      if (!answer) throw new Error(`a reply to nothing: ${JSON.stringify(line)}`);
      this.inFlight.delete(tag);
      answer(reply);
    }
  }

  /** The next line, or undefined when the connection ended after this side had asked for it. */
  private async nextLine(): Promise<string | undefined> {
    try {
      return await this.client.next(REPLY_DEADLINE_MS);
    } catch (error) {
      if (this.hasEnded) return undefined;
      throw error;
    }
  }
}

const REFUSALS: ReadonlySet<string> = new Set<Refusal>([
  "error",
  "error_max_locks",
  "error_max_waiters",
  "error_limit_mismatch",
  "error_not_enqueued",
  "error_already_enqueued",
  "error_lease_expired",
  "error_draining",
]);

function outcomeOf(reply: string): Outcome {
  const grant = /^(ok|acquired) (\S+) ([0-9]+)$/.exec(reply);
  if (grant) return { status: grant[1] as "ok" | "acquired", token: grant[2] as string, lease: Number(grant[3]) };
  if (reply === "timeout" || reply === "queued") return { status: reply };
  if (REFUSALS.has(reply)) return { status: reply as Refusal };
  throw new Error(`unknown reply: ${reply}`);
}
