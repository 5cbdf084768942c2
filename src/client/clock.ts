/** The client's time source. Tests bring their own. */
export interface Clock {
  /** Milliseconds of the wall clock. Runs on while the machine sleeps, but may be set. */
  wall(): number;
  /** Milliseconds of a monotonic clock, which may stop while the machine sleeps. */
  steady(): number;
  /** Calls back once, after `ms` or later. The returned function cancels it. */
  after(ms: number, call: () => void): () => void;
}

/** Longer timers would fire at once, in browsers and in Node. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  wall: () => Date.now(),
  steady: () => performance.now(),
  after(ms, call) {
    let timer: ReturnType<typeof setTimeout>;
    const arm = (left: number) => {
      timer = setTimeout(() => (left > MAX_TIMER_MS ? arm(left - MAX_TIMER_MS) : call()), Math.min(left, MAX_TIMER_MS));
    };
    arm(Math.max(0, ms));
    return () => clearTimeout(timer);
  },
};

/** Settles as the promise does, or rejects after `ms`. */
export async function within<Value>(clock: Clock, ms: number, promise: Promise<Value>): Promise<Value> {
  let cancel = () => {};
  const late = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => reject(new Error(`not within ${ms} ms`)));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    cancel();
  }
}

/** A moment on both clocks. */
export interface Moment {
  readonly wall: number;
  readonly steady: number;
}

export function momentOf(clock: Clock): Moment {
  return { wall: clock.wall(), steady: clock.steady() };
}

/**
 * Time since a moment, by the clock that shows more. If the machine slept or the clock was set, the result may be too
 * long, never too short.
 */
export function elapsedMs(clock: Clock, since: Moment, now = momentOf(clock)): number {
  return Math.max(now.wall - since.wall, now.steady - since.steady);
}
