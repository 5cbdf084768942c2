import type { ClaimOutcome, KeyEvent } from "../core/engine/index.ts";
import { newSessionlessOwner } from "../core/session-names.ts";
import type { Claim, ClaimEnd, Left } from "../service.ts";
import type { Batch } from "./batch.ts";
import type { Key, Keys } from "./keys.ts";

const LEFT: Left = { status: "left" };

interface Waiting {
  readonly key: string;
  resolve(end: ClaimEnd): void;
  reject(error: unknown): void;
}

/** What claims need of their host. */
interface ClaimsParts {
  readonly batch: Batch;
  readonly keys: Keys;
  randomHex(bytes: number): string;
  now(): number;
  /** Whether anything new can be stored. */
  isWell(): boolean;
  /** What was said to a notice, for the metrics. */
  answered(answer: "taken" | "gone"): void;
}

/** Locks taken by holders without a session, and those that wait for one. */
export class Claims {
  readonly #parts: ClaimsParts;
  /** By request. */
  readonly #waiting = new Map<string, Waiting>();
  /** Keys of claims whose caller has gone, and that may still be in the queue, by request. */
  readonly #abandoned = new Map<string, string>();

  constructor(parts: ClaimsParts) {
    this.#parts = parts;
  }

  /** Takes the lock, waiting for it if need be. Once the signal is aborted, the claim is withdrawn. */
  make(key: string, { waitMs, leaseSeconds, sessionless }: Claim, signal: AbortSignal): Promise<ClaimEnd> {
    const { batch, keys, randomHex, isWell } = this.#parts;
    const { promise, resolve, reject } = Promise.withResolvers<ClaimEnd>();
    const request = randomHex(12);
    const session = newSessionlessOwner(sessionless.kind);
    const waiting = { key, resolve, reject };
    const hungUp = () => {
      resolve(LEFT);
      if (this.#waiting.delete(request)) batch.enter(() => this.#withdraw(request, key));
    };
    signal.addEventListener("abort", hungUp);
    batch.enter(() => {
      if (signal.aborted) resolve(LEFT);
      else if (!isWell()) resolve({ status: "unavailable" });
      else {
        this.#waiting.set(request, waiting);
        this.#rejectIfFailed(request, waiting);
        const command = { session, request, leaseSeconds, waitMs, sessionless };
        this.#answer(request, keys.ask(key, { type: "claim", command }), waiting);
      }
    });
    return promise.finally(() => signal.removeEventListener("abort", hungUp));
  }

  /** A claim that waits is over: answers it, or withdraws it if its caller has gone. */
  tell(key: Key, { request }: Extract<KeyEvent, { readonly type: "notice" }>): void {
    const { batch, keys } = this.#parts;
    const waiting = this.#waiting.get(request);
    const answer = waiting ? "taken" : "gone";
    if (waiting) {
      this.#rejectIfFailed(request, waiting);
      this.#answer(request, keys.ask(key.name, { type: "collect", request }), waiting);
    }
    batch.enter(() => {
      const current = keys.get(key.name);
      if (current) keys.answer(current, request, answer);
    });
    batch.afterwards(() => this.#parts.answered(answer));
  }

  /** Withdraws the claims that a failed batch has left behind. Part of a batch. */
  withdrawAbandoned(): void {
    const abandoned = [...this.#abandoned];
    this.#abandoned.clear();
    for (const [request, key] of abandoned) this.#withdraw(request, key);
  }

  #withdraw(request: string, key: string): void {
    const { batch, keys } = this.#parts;
    batch.afterwards(
      () => {},
      () => this.#abandoned.set(request, key),
    );
    keys.ask(key, { type: "cancel", request });
  }

  #rejectIfFailed(request: string, { key, reject }: Waiting): void {
    this.#parts.batch.afterwards(
      () => {},
      (error) => {
        this.#waiting.delete(request);
        this.#abandoned.set(request, key);
        reject(error);
      },
    );
  }

  /** Tells the outcome once it is durable. If its client has hung up by then, the claim is withdrawn. */
  #answer(request: string, outcome: ClaimOutcome, { resolve }: Waiting): void {
    // Claims of this host may always wait.
    if (outcome.status === "queued" || outcome.status === "would_wait") return;
    this.#parts.batch.afterwards(() => {
      // Aborted meanwhile, and withdrawn.
      if (!this.#waiting.delete(request)) return;
      // The commit may have taken longer than the lease.
      const isLate = outcome.status === "granted" && outcome.hold.expiresAt <= this.#parts.now();
      resolve(isLate ? { status: "lease_expired" } : outcome);
    });
  }
}
