import {
  FileLockError,
  HeldError,
  type Holder,
  IoError,
  NotOwnerError,
  PathError,
  TimeoutError,
} from "../../lockfile/index.ts";

/** What a command prints, for people and as JSON, and its exit code. */
export interface Outcome {
  /** 0: done. 1: held, timed out, or not the owner. 2: usage. 3: path or I/O error. */
  readonly exitCode: 0 | 1 | 2 | 3;
  /** One line or, for `status` and help, several. */
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>>;
  /** Whether the text goes to stderr. */
  readonly isComplaint: boolean;
}

export const done = (text: string, json: Readonly<Record<string, unknown>>): Outcome => ({
  exitCode: 0,
  text,
  json: { ok: true, ...json },
  isComplaint: false,
});

function complaint(exitCode: 1 | 2 | 3, text: string, json: Readonly<Record<string, unknown>>): Outcome {
  return { exitCode, text, json: { ok: false, ...json }, isComplaint: true };
}

export const usage = (line: string, message: string): Outcome =>
  complaint(2, `usage: ${line} (${printable(message)})`, { error: "usage", message });

/** The outcome of an operation that failed. */
export function outcomeOf(path: string, error: unknown): Outcome {
  const shown = printable(path);
  if (error instanceof HeldError)
    return complaint(1, `held ${shown}${inWords(error.holder)}`, { error: "held", path, ...fieldsOf(error.holder) });
  if (error instanceof TimeoutError)
    return complaint(1, `timeout ${shown}${inWords(error.holder)}`, {
      error: "timeout",
      path,
      ...fieldsOf(error.holder),
    });
  if (error instanceof NotOwnerError && !error.holder) return complaint(1, `free ${shown}`, { error: "free", path });
  if (error instanceof NotOwnerError)
    return complaint(1, `not owner ${shown}${inWords(error.holder)}`, {
      error: "not_owner",
      path,
      ...fieldsOf(error.holder),
    });
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof PathError || error instanceof IoError ? (error.code ?? null) : null;
  const kind = error instanceof FileLockError ? error.kind : "io";
  return complaint(3, `error ${shown}: ${printable(message)}`, { error: kind, path, code, message });
}

/** The fields that every JSON line about a holder has. */
export function fieldsOf(holder: Holder | undefined): Record<string, string | number | null> {
  const { pid = null, timestamp = null, tag = null, host = null, age = null } = holder ?? {};
  return { pid, timestamp, tag, host, age_s: age };
}

/** ` pid=7 since=1700000000 tag=nightly`, or what is known. */
export function inWords(holder: Holder | undefined): string {
  if (!holder) return "";
  const { pid, timestamp, tag, age } = holder;
  if (pid === null || timestamp === null) return ` malformed age=${age}`;
  return ` pid=${pid} since=${timestamp}${tag === null ? "" : ` tag=${printable(tag)}`}`;
}

/** One line without control characters: paths and tags are untrusted, and terminals interpret some of them. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, " ");
}
