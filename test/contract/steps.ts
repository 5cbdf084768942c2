/** Small steps that most stories share. */
import type { AcquireOptions, Grant, Outcome, Session, Story } from "./contract.ts";

export const DEFAULT_LEASE = 33;
export const LOCK = { limit: 1 } as const;
/** Longer than any story takes. */
export const LONG = 60;

export const TRY: AcquireOptions = { limit: 1, waitSeconds: 0 };
export const PATIENT: AcquireOptions = { limit: 1, waitSeconds: LONG };

/** The grant in an outcome; anything else is an error. */
export function granted(outcome: Outcome): Grant {
  if (outcome.status !== "ok" && outcome.status !== "acquired") throw new Error(`not granted: ${outcome.status}`);
  return outcome;
}

/** Takes the key at once. */
export async function hold(session: Session, key: string, options: Partial<AcquireOptions> = {}): Promise<string> {
  return granted(await session.acquire(key, { ...TRY, ...options })).token;
}

/** Starts an acquire that has to wait, and returns once it is queued; `outcome` is still to come. */
export async function queue(
  session: Session,
  key: string,
  options: Partial<AcquireOptions> = {},
): Promise<{ readonly outcome: Promise<Outcome> }> {
  const outcome = session.acquire(key, { ...PATIENT, ...options });
  outcome.catch(() => undefined);
  await session.arrived(key);
  return { outcome };
}

/** Lets time pass and checks that the outcome is still open then. */
export async function stillWaits(story: Story, outcome: Promise<unknown>, seconds = 0.2): Promise<void> {
  let isSettled = false;
  const note = () => {
    isSettled = true;
  };
  outcome.then(note, note);
  await story.sleep(seconds);
  story.expect(isSettled, "answered too early").toBe(false);
}

/** Tries the key until it is free, for at most `seconds`; for cleanups that take a moment. */
export async function soonFree(story: Story, session: Session, key: string, seconds = 1): Promise<Grant> {
  for (let waited = 0; ; waited += 0.1) {
    const outcome = await session.acquire(key, TRY);
    if (outcome.status === "ok") return outcome;
    story.expect(waited, `still ${outcome.status}`).toBeLessThan(seconds);
    await story.sleep(0.1);
  }
}
