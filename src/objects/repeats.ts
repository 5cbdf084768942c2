import type { Config } from "../config.ts";
import type { Host, Standing } from "./conversation-host.ts";

/** A client that has resumed sends again what it has not heard the end of; until it has had the time to, it is asked for. */
export function mayComeAgain(
  { isResumed, openedAt }: Standing,
  { session, now }: Pick<Host, "session" | "now">,
  id: string,
  { resumeGraceMs }: Pick<Config, "resumeGraceMs">,
): boolean {
  return isResumed && now() < openedAt + resumeGraceMs && id.startsWith(`${session}.`);
}
