/**
 * Every way in which a command can fail, and its exit code. Where the lock-file protocol defines no code, those of
 * `sysexits.h` are used.
 */
export const EXIT_CODES = {
  usage: 2,
  path: 3,
  io: 3,
  limit_mismatch: 65,
  already_enqueued: 65,
  not_enqueued: 65,
  unreachable: 69,
  unavailable: 69,
  protocol: 70,
  internal: 70,
  draining: 73,
  full: 73,
  rate_limited: 73,
  busy: 75,
  lost: 76,
  not_held: 76,
  session_gone: 76,
  unauthorized: 77,
  forbidden: 77,
  host_forbidden: 77,
} as const;

export type ErrorCode = keyof typeof EXIT_CODES;

/** Why a command failed: one line for a person, and a code for programs. */
export class CommandError extends Error {
  override readonly name: string = "CommandError";
  readonly code: ErrorCode;
  /** The line is a report of its own, such as `busy deploy`, and is printed without the prefix `holdfast:`. */
  readonly isReport: boolean;

  constructor(
    code: ErrorCode,
    message: string,
    { isReport = false, cause }: { isReport?: boolean; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.isReport = isReport;
  }

  get exitCode(): number {
    return EXIT_CODES[this.code];
  }
}

/** The command line is invalid; its usage is shown with the message. */
export class UsageError extends CommandError {
  override readonly name = "UsageError";
  constructor(message: string) {
    super("usage", message);
  }
}

/** A signal ended the command before it had done anything. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
  readonly exitCode: number;
  constructor(signalNumber: number) {
    super("interrupted");
    this.exitCode = 128 + signalNumber;
  }
}
