import type { ErrorWord } from "../../protocols/godistlock/errors.ts";
import type { Status } from "../../protocols/statuses.ts";

const WORDS: Partial<Record<Status, ErrorWord>> = {
  limit_mismatch: "limit-mismatch",
  max_locks: "max-locks",
  max_waiters: "max-waiters",
  draining: "draining",
  auth: "forbidden",
};

/** What a client is told when a request cannot be carried out. */
export function faultOf(status: Status): ErrorWord {
  return WORDS[status] ?? "internal";
}

/** The wire protocol's codes for the same mistakes, for metrics. */
export const ERROR_CODES: Partial<Record<ErrorWord, number>> = {
  "invalid-keyword": 3,
  "invalid-timeout": 4,
  "invalid-fence": 4,
  "invalid-lock": 5,
  "invalid-message": 8,
  "read-timeout": 10,
  "line-too-long": 12,
};
