/**
 * Self-hosted, an object that is awake has files open until it has been idle for a minute or two. One that rests closes them at once: it
 * ends itself while it does nothing, and what it needs is stored.
 */

/** The reason with which a resting object refuses what comes too late. It has done nothing of it. */
export const RESTING = "the object is resting";
/** By then the answers to earlier calls have left. */
const ANSWERS_LEAVE_WITHIN_MS = 10;
/** An object whose alarm is due so soon does not go to rest: an alarm that meets a resting object comes late. */
export const WAKE_UP_IS_NEAR_MS = 1_000;
/** How often in a row a call may meet an object that goes to rest. */
const MAX_RESTS = 10;

/** The call came while the object was put to rest: nothing was done, and it may be made again on a new stub. */
export function isResting(error: unknown): boolean {
  return error instanceof Error && error.message.includes(RESTING);
}

/** Makes a call, again if it met an object that went to rest. `call` takes a new stub each time. */
export async function callAwake<Result>(call: () => Promise<Result>): Promise<Result> {
  for (let rests = 0; ; rests++) {
    try {
      return await call();
    } catch (error) {
      if (!isResting(error) || rests === MAX_RESTS) throw error;
    }
  }
}

/** Resolves when what the object has stored is durable, and its answers have left. */
export async function settled({ storage }: DurableObjectState): Promise<void> {
  await storage.sync();
  await scheduler.wait(ANSWERS_LEAVE_WITHIN_MS);
}

/** Closes the object's files. Whatever comes too late is refused, so nothing may be under way. */
export function rest(ctx: DurableObjectState): void {
  ctx.abort(RESTING);
}
