/** Time, as the client sees it. Tests bring their own. */
export interface Clock {
  /** Milliseconds of the wall clock. It runs on while the machine sleeps, but somebody may set it. */
  wall(): number;
  /** Milliseconds of a clock that nobody sets, but that may stand still while the machine sleeps. */
  steady(): number;
  /** Calls back once, after `ms` or later, unless the function it returns is called before. */
  after(ms: number, call: () => void): () => void;
}

/** Timers of browsers and Node take no more: they would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  wall: () => Date.now(),
  steady: () => performance.now(),
  after(ms, call) {
    let timer: ReturnType<typeof setTimeout>;
    const arm = (left: number) => {
      timer = setTimeout(
        () => (left > LONGEST_TIMER_MS ? arm(left - LONGEST_TIMER_MS) : call()),
        Math.min(left, LONGEST_TIMER_MS),
      );
    };
    arm(Math.max(0, ms));
    return () => clearTimeout(timer);
  },
};

/** Settles as the promise does, or rejects after that time. */
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
 * How long ago a moment was: what the clock says that says more. A sleep or a clock set forward or back can thus make
 * it longer than it was, never shorter.
 */
export function elapsedMs(clock: Clock, since: Moment, now = momentOf(clock)): number {
  return Math.max(now.wall - since.wall, now.steady - since.steady);
}
