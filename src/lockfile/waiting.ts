import { setTimeout } from "node:timers/promises";

/** How long something may take, and what may end it earlier. */
export interface Limits {
  /** On the clock of `performance.now()`, in milliseconds; Infinity means no limit. */
  readonly deadline: number;
  readonly signal?: AbortSignal | undefined;
}

/** The deadline of a timeout in seconds. Throws a `RangeError` if it is negative or not a number. */
export function deadlineAfter(seconds = Number.POSITIVE_INFINITY): number {
  if (!(seconds >= 0)) throw new RangeError(`timeout must not be negative: ${seconds}`);
  return performance.now() + seconds * 1000;
}

/** Resolves after the time, but not later than the deadline. Rejects with the signal's reason if it aborts first. */
export async function sleep(ms: number, { deadline, signal }: Limits): Promise<void> {
  const pauseMs = Math.max(0, Math.min(ms, deadline - performance.now()));
  await setTimeout(pauseMs, undefined, { ...(signal && { signal }) }).catch(() => signal?.throwIfAborted());
}

/**
 * Repeats a step about every `retryMs` until it returns something; undefined when the deadline has passed. Makes at
 * least one attempt, and the last one at the deadline.
 */
export async function until<T>(
  step: () => Promise<T | undefined>,
  retryMs: number,
  limits: Limits,
): Promise<T | undefined> {
  for (;;) {
    limits.signal?.throwIfAborted();
    const result = await step();
    if (result !== undefined) return result;
    if (performance.now() >= limits.deadline) return undefined;
    // Contenders that started together must not stay in step.
    await sleep(retryMs * (0.75 + Math.random() / 2), limits);
  }
}
