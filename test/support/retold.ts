import { stalledMs } from "./stopwatch.ts";

/** Scripts leave this much room between what happens and when they look. */
const TOO_MUCH_MS = 100;
const ATTEMPTS = 4;

/**
 * Tells a story that depends on its timing. If it fails and the machine stalled meanwhile, that proves nothing: it is told
 * again, from the beginning. Without a stall a failure is a failure.
 */
export async function retold(tell: (attempt: number) => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const before = stalledMs();
    try {
      return await tell(attempt);
    } catch (error) {
      if (attempt === ATTEMPTS || stalledMs() - before < TOO_MUCH_MS) throw error;
    }
  }
}
