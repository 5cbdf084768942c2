import { getSystemErrorMap } from "node:util";

/** Why the command cannot continue, in one line for a person. The line never contains the value of a secret. */
export class Failure extends Error {
  /** 2: the request makes no sense; 1: it does, but cannot be done now. */
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.name = "Failure";
    this.exitCode = exitCode;
  }
}

/** A flag, variable or file with a bad value. */
export class UsageFailure extends Failure {
  constructor(message: string) {
    super(message, 2);
  }
}

/** The operating system's reason in words, such as "permission denied". */
export function reasonOf(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException;
  const known = errno === undefined ? undefined : getSystemErrorMap().get(errno);
  return known?.[1] ?? String(message ?? error).split("\n", 1)[0] ?? "unknown reason";
}

export function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
