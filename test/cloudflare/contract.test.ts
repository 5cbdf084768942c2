import { afterAll, beforeAll, vi } from "vitest";
import type { AcquireOutcome, EnqueueOutcome, PickUpOutcome, WaitOutcome } from "../../src/core/engine/index.ts";
import { contract, type Harness, type Outcome, type Refusal, type Session } from "../contract/contract.ts";
import { type FakeSession, scriptSessions } from "./listeners.ts";
import { askKey, fresh, keyStub } from "./support.ts";

const DEFAULT_LEASE = 33;

let scripts: Map<string, FakeSession>;
beforeAll(() => {
  scripts = scriptSessions();
});
afterAll(() => {
  vi.restoreAllMocks();
});

/** A session that speaks to key objects directly, without a protocol in between. */
class KeySession implements Session, FakeSession {
  readonly #name = fresh("session");
  readonly #keys = new Set<string>();
  readonly #waiting = new Map<string, (outcome: Outcome) => void>();

  constructor() {
    scripts.set(this.#name, this);
  }

  async acquire(
    key: string,
    { limit, waitSeconds, leaseSeconds = DEFAULT_LEASE, signal }: Parameters<Session["acquire"]>[1],
  ): Promise<Outcome> {
    this.#keys.add(key);
    const request = fresh("request");
    const command = { session: this.#name, request, limit, leaseSeconds, waitMs: waitSeconds * 1000, mayWait: true };
    const answer = this.#answerTo(request);
    signal?.addEventListener("abort", () => {
      void askKey(keyStub(key), { type: "cancel", request });
      this.#settle(request, { status: "cancelled" });
    });
    return this.#outcome(await askKey(keyStub(key), { type: "acquire", command }), "ok", request, answer);
  }

  async enqueue(
    key: string,
    { limit, leaseSeconds = DEFAULT_LEASE }: Parameters<Session["enqueue"]>[1],
  ): Promise<Outcome> {
    this.#keys.add(key);
    const request = fresh("request");
    const outcome = await askKey(keyStub(key), {
      type: "enqueue",
      command: { session: this.#name, request, limit, leaseSeconds },
    });
    return outcome.status === "queued" ? { status: "queued" } : this.#outcome(outcome, "acquired");
  }

  async wait(key: string, { waitSeconds }: { readonly waitSeconds: number }): Promise<Outcome> {
    const request = fresh("request");
    const answer = this.#answerTo(request);
    const command = { session: this.#name, request, waitMs: waitSeconds * 1000, mayWait: true };
    return this.#outcome(await askKey(keyStub(key), { type: "wait", command }), "ok", request, answer);
  }

  async release(key: string, token: string) {
    const { status } = await askKey(keyStub(key), { type: "release", token, session: this.#name });
    return { status: status === "released" ? "ok" : "error" } as const;
  }

  async renew(key: string, token: string, leaseSeconds = DEFAULT_LEASE) {
    const outcome = await askKey(keyStub(key), { type: "renew", token, leaseSeconds });
    if (outcome.status === "not_held") return { status: "error" } as const;
    return { status: "ok", lease: outcome.leaseSeconds } as const;
  }

  async arrived(key: string): Promise<void> {
    await keyStub(key).describe();
  }

  async end(): Promise<void> {
    scripts.delete(this.#name);
    for (const key of this.#keys)
      await askKey(keyStub(key), { type: "leave", session: this.#name, keepsReported: false });
  }

  async deliver({ key, request, kind }: Parameters<FakeSession["deliver"]>[0]) {
    if (kind === "promoted") return "noted" as const;
    if (!this.#waiting.has(request)) return "gone" as const;
    const outcome: PickUpOutcome =
      kind === "granted" ? await askKey(keyStub(key), { type: "pickUp", request }) : { status: kind };
    this.#settle(request, this.#final(outcome, "ok"));
    return "taken" as const;
  }

  #answerTo(request: string): Promise<Outcome> {
    return new Promise((resolve) => this.#waiting.set(request, resolve));
  }

  #settle(request: string, outcome: Outcome): void {
    this.#waiting.get(request)?.(outcome);
    this.#waiting.delete(request);
  }

  #outcome(
    outcome: AcquireOutcome | EnqueueOutcome | WaitOutcome,
    word: "ok" | "acquired",
    request = "",
    answer: Promise<Outcome> = Promise.reject(new Error("queued without a request")),
  ): Promise<Outcome> {
    answer.catch(() => {});
    if (outcome.status === "queued") return answer;
    this.#waiting.delete(request);
    return Promise.resolve(this.#final(outcome, word));
  }

  #final(outcome: AcquireOutcome | EnqueueOutcome | WaitOutcome | PickUpOutcome, word: "ok" | "acquired"): Outcome {
    if (outcome.status === "granted") return { status: word, token: outcome.token, lease: outcome.leaseSeconds };
    if (outcome.status === "timeout") return { status: "timeout" };
    return { status: `error_${outcome.status}` as Refusal };
  }
}

async function makeHarness(): Promise<Harness> {
  const sessions: KeySession[] = [];
  return {
    async session() {
      const session = new KeySession();
      sessions.push(session);
      return session;
    },
    sleep: (seconds) => scheduler.wait(seconds * 1000),
    freshKey: () => fresh("key"),
    async close() {
      for (const session of sessions) await session.end();
    },
  };
}

contract("key objects", makeHarness, { concurrent: true, canCancel: true });
