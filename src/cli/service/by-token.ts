import { ConnectionError } from "../../client/errors.ts";
import { connectClient } from "./connected.ts";
import { explained } from "./explained.ts";
import { refusal } from "./failures.ts";
import type { Target } from "./target.ts";

const ANSWERED_WITHIN_MS = 10_000;

/** A request for which the token of a lock is enough. */
export interface TokenRequest {
  readonly command: "r" | "n";
  readonly key: string;
  /** The token, and for a renewal the lease. */
  readonly arg: string;
}

/**
 * Makes the request on its own connection and leaves nothing behind. Works on a draining server too, which opens no
 * HTTP sessions. Resolves with what follows `ok`. Throws a `CommandError`.
 */
export async function askByToken(target: Target, { command, key, arg }: TokenRequest): Promise<string> {
  const client = await connectClient(target);
  const ask = (limit: number) => {
    const tooLate = () => new ConnectionError("no answer in time");
    return client.ask({ command, key, limit, arg }, { withinMs: ANSWERED_WITHIN_MS, tooLate });
  };
  try {
    const first = await ask(1);
    // A ticket may cover semaphores only; the two commands differ in nothing else.
    const { status, rest } = first.status === "error_auth" ? await ask(2) : first;
    if (status === "ok") return rest;
    throw refusal(target, 403, status === "error_auth" ? "forbidden" : "not_held", undefined);
  } catch (error) {
    throw explained(target, error, { key });
  } finally {
    await client.close();
  }
}
