/**
 * What every way into the service promises, as one suite. It knows nothing of wires, objects or clocks: an adapter gives
 * it sessions and time, and the suite runs wherever vitest does (also inside workerd, so no Node imports here).
 */
import { describe, type ExpectStatic, it } from "vitest";
import { fencePromises } from "./fences.ts";
import { leasePromises } from "./leases.ts";
import { limitPromises } from "./limits.ts";
import { lockPromises } from "./locks.ts";
import { sessionEndPromises } from "./session-end.ts";
import { twoPhasePromises } from "./two-phase.ts";

export interface Grant {
  readonly token: string;
  readonly lease: number;
}
export type Refusal =
  | "error"
  | "error_max_locks"
  | "error_max_waiters"
  | "error_limit_mismatch"
  | "error_not_enqueued"
  | "error_already_enqueued"
  | "error_lease_expired"
  | "error_draining";
export type Outcome =
  | ({ readonly status: "ok" } & Grant)
  | ({ readonly status: "acquired" } & Grant)
  | { readonly status: "queued" }
  | { readonly status: "timeout" }
  /** The caller took the request back by its signal. */
  | { readonly status: "cancelled" }
  | { readonly status: Refusal };
export type ReleaseOutcome = { readonly status: "ok" } | { readonly status: "error" };
export type RenewOutcome = { readonly status: "ok"; readonly lease: number } | { readonly status: "error" };

export interface AcquireOptions {
  /** Slots of the key; 1 is a lock. */
  readonly limit: number;
  readonly waitSeconds: number;
  readonly leaseSeconds?: number;
  /** Only used with adapters that can cancel. */
  readonly signal?: AbortSignal;
}

/** One client identity. Requests may run at the same time; those on one key arrive there in the order of the calls. */
export interface Session {
  acquire(key: string, options: AcquireOptions): Promise<Outcome>;
  enqueue(key: string, options: { readonly limit: number; readonly leaseSeconds?: number }): Promise<Outcome>;
  wait(key: string, options: { readonly waitSeconds: number }): Promise<Outcome>;
  release(key: string, token: string): Promise<ReleaseOutcome>;
  renew(key: string, token: string, leaseSeconds?: number): Promise<RenewOutcome>;
  /** Resolves once every earlier request of this session on `key` has been seen by the key (granted or queued). */
  arrived(key: string): Promise<void>;
  /** The client leaves. Resolves when the service knows; what it then cleans up may take a moment. */
  end(): Promise<void>;
}

/** A service with default settings (lease 33 s, sweep every second, auto-release), and a clock to go with it. */
export interface Harness {
  session(): Promise<Session>;
  /**
   * Lets time pass: real, or virtual with every timer that falls due fired in order. When it resolves, every promise whose
   * outcome is decided by then has settled.
   */
  sleep(seconds: number): Promise<void>;
  /** A key that nobody has used. */
  freshKey(): string;
  /** Ends all sessions still open. */
  close(): Promise<void>;
}

export interface ContractOptions {
  /** Run the promises side by side; for adapters in real time. */
  readonly concurrent?: boolean;
  /** `acquire` obeys its signal. */
  readonly canCancel?: boolean;
  /** Tells a story; in real time, again if the machine stalled. */
  readonly tell?: (story: () => Promise<void>) => Promise<void>;
}

export interface Story extends Harness {
  readonly expect: ExpectStatic;
}
export type Promises = Readonly<Record<string, (story: Story) => Promise<void>>>;

export function contract(name: string, makeHarness: () => Promise<Harness>, options: ContractOptions = {}): void {
  const { canCancel = false, concurrent = false, tell = (story) => story() } = options;
  const chapters: Readonly<Record<string, Promises>> = {
    locks: lockPromises({ canCancel }),
    leases: leasePromises,
    "two-phase": twoPhasePromises,
    limits: limitPromises,
    "end of a session": sessionEndPromises,
    fences: fencePromises,
  };
  describe(`the contract, kept by ${name}`, { concurrent }, () => {
    for (const [chapter, promises] of Object.entries(chapters)) {
      describe(chapter, () => {
        for (const [promise, prove] of Object.entries(promises)) {
          it(promise, ({ expect }) =>
            tell(async () => {
              const harness = await makeHarness();
              try {
                await prove({
                  expect,
                  session: () => harness.session(),
                  sleep: (seconds) => harness.sleep(seconds),
                  freshKey: () => harness.freshKey(),
                  close: () => harness.close(),
                });
              } finally {
                await harness.close();
              }
            }),
          );
        }
      });
    }
  });
}
