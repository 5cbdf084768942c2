import { writeSync } from "node:fs";
import type { CommandError } from "./errors.ts";
import { printable } from "./printable.ts";

const STDOUT = 1;
const STDERR = 2;

/** Text for people, JSON for programs, or nothing. */
export type OutputMode = "text" | "json" | "quiet";

/** Results go to stdout, errors to stderr; with `--json`, everything is a line of JSON on stdout. */
export class Printer {
  readonly #mode: OutputMode;

  constructor(mode: OutputMode) {
    this.#mode = mode;
  }

  /** Prints a result. The document gets `"ok":true` in front. */
  result(document: object, lines: readonly string[]): void {
    this.#print(STDOUT, { ok: true, ...document }, lines);
  }

  /** A warning that does not end the command. Not part of the JSON output. */
  note(line: string): void {
    if (this.#mode === "text") write(STDERR, [printable(line)]);
  }

  /** Prints why the command failed. The document gets `"ok":false` in front. */
  complaint(document: object, lines: readonly string[]): void {
    this.#print(STDERR, { ok: false, ...document }, lines);
  }

  failure({ code, message, isReport }: CommandError): void {
    this.complaint({ error: code, message }, [printable(isReport ? message : `holdfast: ${message}`)]);
  }

  #print(descriptor: number, document: object, lines: readonly string[]): void {
    if (this.#mode === "json") write(STDOUT, [JSON.stringify(document)]);
    else if (this.#mode === "text") write(descriptor, lines);
  }
}

/** Synchronous, and without the process's streams, which take milliseconds to load. */
export function write(descriptor: number, lines: readonly string[]): void {
  let rest = Buffer.from(lines.map((line) => `${line}\n`).join(""));
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      // EAGAIN: a full non-blocking pipe. Otherwise there is no reader, which must not cost the lock or the exit code.
      if ((error as { readonly code?: string }).code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
