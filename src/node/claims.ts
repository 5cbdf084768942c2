import type { ClaimOutcome, KeyEvent } from "../core/engine/index.ts";
import { newSessionlessOwner } from "../core/session-names.ts";
import type { Claim, ClaimEnd, Left } from "../service.ts";
import type { Batch } from "./batch.ts";
import type { Key, Keys } from "./keys.ts";

const LEFT: Left = { status: "left" };

/** A withdrawal that could not be stored is made again after this time. */
const TRY_AGAIN_MS = 1_000;

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
  after(ms: number, callback: () => void): void;
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
      if (this.#waiting.delete(request)) this.#withdraw(key, request);
    };
    signal.addEventListener("abort", hungUp);
    batch.attempt(() => {
      if (signal.aborted) resolve(LEFT);
      else if (!isWell()) resolve({ status: "unavailable" });
      else {
        this.#waiting.set(request, waiting);
        const command = { session, request, leaseSeconds, waitMs, sessionless };
        this.#answer(request, keys.ask(key, { type: "claim", command }), waiting);
      }
    }, reject);
    return promise.finally(() => signal.removeEventListener("abort", hungUp));
  }

  /** A claim that waits is over: answers it, or withdraws it if nobody waits for the answer. */
  tell(key: Key, { request }: Extract<KeyEvent, { readonly type: "notice" }>): void {
    const { batch, keys } = this.#parts;
    const waiting = this.#waiting.get(request);
    const answer = waiting ? "taken" : "gone";
    if (waiting) this.#answer(request, keys.ask(key.name, { type: "collect", request }), waiting);
    batch.enter(() => {
      const current = keys.get(key.name);
      if (current) keys.answer(current, request, answer);
    });
    batch.afterwards(() => this.#parts.answered(answer));
  }

  /** Tells the outcome once it is durable. If its client has hung up by then, the claim is withdrawn. */
  #answer(request: string, outcome: ClaimOutcome, { key, resolve, reject }: Waiting): void {
    const { batch } = this.#parts;
    const failed = (error: unknown) => {
      // It may have been in the queue before.
      if (this.#waiting.delete(request)) this.#withdraw(key, request);
      reject(error);
    };
    if (outcome.status === "queued") {
      batch.afterwards(() => {}, failed);
      return;
    }
    batch.afterwards(() => {
      // Aborted meanwhile, and withdrawn.
      if (this.#waiting.delete(request)) resolve(this.#isExpired(outcome) ? { status: "lease_expired" } : outcome);
    }, failed);
  }

  /** Its lease has run out during the commit. */
  #isExpired(outcome: ClaimOutcome): boolean {
    const isHeld = outcome.status === "granted" || outcome.status === "standing";
    return isHeld && outcome.hold.expiresAt <= this.#parts.now();
  }

  /** Nobody wants the claim any longer: it must not hold or wait, even if that cannot be stored now. */
  #withdraw(key: string, request: string): void {
    const { batch, keys, after } = this.#parts;
    const again = () => after(TRY_AGAIN_MS, () => this.#withdraw(key, request));
    batch.attempt(() => {
      keys.ask(key, { type: "cancel", request });
      batch.afterwards(() => {}, again);
    }, again);
  }
}
