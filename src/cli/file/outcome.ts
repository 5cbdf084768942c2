import {
  FileLockError,
  HeldError,
  type Holder,
  IoError,
  NotOwnerError,
  PathError,
  TimeoutError,
} from "../../lockfile/index.ts";
import { printable } from "../output/printable.ts";

/** What a command prints, for people and as JSON, and its exit code. */
export interface Outcome {
  /** 0: done. 1: held, timed out, or not the owner. 3: path or I/O error. */
  readonly exitCode: 0 | 1 | 3;
  /** One line or, for `status`, several. */
  readonly text: string;
  readonly json: Readonly<Record<string, unknown>>;
}

/** The outcome of an operation that failed. */
export function failureOf(path: string, error: unknown): Outcome {
  const shown = printable(path);
  const held = (name: string, json: string, holder: Holder | undefined): Outcome => ({
    exitCode: 1,
    text: `${name} ${shown}${holderText(holder)}`,
    json: { error: json, path, ...fieldsOf(holder) },
  });
  if (error instanceof HeldError) return held("held", "held", error.holder);
  if (error instanceof TimeoutError) return held("timeout", "timeout", error.holder);
  if (error instanceof NotOwnerError) {
    if (error.holder) return held("not owner", "not_owner", error.holder);
    return { exitCode: 1, text: `free ${shown}`, json: { error: "free", path } };
  }
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof PathError || error instanceof IoError ? (error.code ?? null) : null;
  const kind = error instanceof FileLockError ? error.kind : "io";
  return { exitCode: 3, text: `error ${shown}: ${printable(message)}`, json: { error: kind, path, code, message } };
}

/** The fields that every JSON line about a holder has. */
export function fieldsOf(holder: Holder | undefined): Record<string, string | number | null> {
  const { pid = null, timestamp = null, tag = null, host = null, age = null } = holder ?? {};
  return { pid, timestamp, tag, host, age_s: age };
}

/** ` pid=7 since=1700000000 tag=nightly`, or what is known. */
export function holderText(holder: Holder | undefined): string {
  if (!holder) return "";
  const { pid, timestamp, tag, age } = holder;
  if (pid === null || timestamp === null) return ` malformed age=${age}`;
  return ` pid=${pid} since=${timestamp}${tag === null ? "" : ` tag=${printable(tag)}`}`;
}
