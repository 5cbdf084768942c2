/**
 * Self-hosted, an awake object keeps files open until it has been idle for a minute or two. Resting closes them
 * immediately: an idle object aborts itself, and everything it needs is stored.
 */

/** The reason with which a resting object rejects calls that arrive too late. None of them has been executed. */
export const RESTING = "the object is resting";
/** Answers to earlier calls have left by then. */
const ANSWERS_LEAVE_WITHIN_MS = 10;
/** An object whose alarm is due this soon does not rest: an alarm that hits a resting object fires late. */
export const WAKE_UP_IS_NEAR_MS = 1_000;
/** How often in a row a call may hit an object that goes to rest. */
const MAX_RESTS = 10;

/** The call hit an object going to rest: nothing was executed, and it may be repeated on a new stub. */
export function isResting(error: unknown): boolean {
  return error instanceof Error && error.message.includes(RESTING);
}

/** Makes a call, and repeats it if it hit an object going to rest. `call` must use a new stub each time. */
export async function callAwake<Result>(call: () => Promise<Result>): Promise<Result> {
  for (let rests = 0; ; rests++) {
    try {
      return await call();
    } catch (error) {
      if (!isResting(error) || rests === MAX_RESTS) throw error;
    }
  }
}

/** Resolves when everything stored is durable and all answers have left. */
export async function settled({ storage }: DurableObjectState): Promise<void> {
  await storage.sync();
  await scheduler.wait(ANSWERS_LEAVE_WITHIN_MS);
}

/** Closes the object's files. Calls that arrive too late are rejected, so nothing may be in flight. */
export function rest(ctx: DurableObjectState): void {
  ctx.abort(RESTING);
}
