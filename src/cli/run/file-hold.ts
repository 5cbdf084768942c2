import { CommandError } from "../output/errors.ts";
import type { Hold } from "./hold.ts";
import type { Attempt } from "./plan.ts";

export interface WantedFile {
  readonly path: string;
  readonly staleSeconds: number;
  readonly tag: string | undefined;
}

/** Holds a lock file. */
export async function holdFile({ path }: WantedFile, _attempt: Attempt): Promise<Hold> {
  throw new CommandError("io", `error ${path}: lock files are not part of this build`, { isReport: true });
}
