import type {
  AcquireCommand,
  AcquireOutcome,
  EnqueueCommand,
  EnqueueOutcome,
  PickUpOutcome,
  ReleaseOutcome,
  RenewOutcome,
  WaitCommand,
  WaitOutcome,
} from "../engine/index.ts";
import type { Env } from "./env.ts";
import type { KeyObject } from "./key.ts";

/** The way from a session to keys. Requests of one session to one key arrive in the order in which they were made. */
export interface Keys {
  acquire(key: string, command: AcquireCommand): Promise<AcquireOutcome>;
  enqueue(key: string, command: EnqueueCommand): Promise<EnqueueOutcome>;
  wait(key: string, command: WaitCommand): Promise<WaitOutcome>;
  release(key: string, token: string, session: string): Promise<ReleaseOutcome>;
  renew(key: string, token: string, leaseSeconds: number): Promise<RenewOutcome>;
  pickUp(key: string, request: string): Promise<PickUpOutcome>;
  cancel(key: string, request: string): Promise<void>;
  leave(key: string, session: string, options: { keepsReported: boolean }): Promise<void>;
}

/** A key as its stub offers it: methods take and give plain values. */
type KeyStub = Pick<KeyObject, keyof Keys>;

const ATTEMPTS = 3;
const MOST_STUBS = 256;

/** Keys behind their Durable Objects. Calls that the platform calls retryable are repeated: none does harm twice. */
export class RemoteKeys implements Keys {
  readonly #env: Env;
  /** One stub per key: only calls on the same stub are sure to arrive in order. */
  readonly #stubs = new Map<string, KeyStub>();

  constructor(env: Env) {
    this.#env = env;
  }

  acquire(key: string, command: AcquireCommand): Promise<AcquireOutcome> {
    return this.#call(key, (stub) => stub.acquire(command));
  }

  enqueue(key: string, command: EnqueueCommand): Promise<EnqueueOutcome> {
    return this.#call(key, (stub) => stub.enqueue(command));
  }

  wait(key: string, command: WaitCommand): Promise<WaitOutcome> {
    return this.#call(key, (stub) => stub.wait(command));
  }

  release(key: string, token: string, session: string): Promise<ReleaseOutcome> {
    return this.#call(key, (stub) => stub.release(token, session));
  }

  renew(key: string, token: string, leaseSeconds: number): Promise<RenewOutcome> {
    return this.#call(key, (stub) => stub.renew(token, leaseSeconds));
  }

  pickUp(key: string, request: string): Promise<PickUpOutcome> {
    return this.#call(key, (stub) => stub.pickUp(request));
  }

  cancel(key: string, request: string): Promise<void> {
    return this.#call(key, (stub) => stub.cancel(request));
  }

  leave(key: string, session: string, options: { keepsReported: boolean }): Promise<void> {
    return this.#call(key, (stub) => stub.leave(session, options));
  }

  async #call<Outcome>(key: string, ask: (stub: KeyStub) => Promise<Outcome>): Promise<Outcome> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await ask(this.#stub(key));
      } catch (error) {
        // A stub that has thrown may be broken for good: the next call needs a new one.
        this.#stubs.delete(key);
        if (attempt === ATTEMPTS || !isRetryable(error)) throw error;
        await scheduler.wait(Math.random() * 50 * 2 ** attempt);
      }
    }
  }

  #stub(key: string): KeyStub {
    const known = this.#stubs.get(key);
    if (known) return known;
    if (this.#stubs.size >= MOST_STUBS) this.#stubs.clear();
    const stub = this.#env.KEY.getByName(key) as unknown as KeyStub;
    this.#stubs.set(key, stub);
    return stub;
  }
}

/** The platform marks failures in which trying again may help and does no harm. */
function isRetryable(error: unknown): boolean {
  const { retryable, overloaded } = error as { retryable?: boolean; overloaded?: boolean };
  return retryable === true && overloaded !== true;
}
