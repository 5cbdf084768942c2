import type { CommandError } from "./errors.ts";
import { printable } from "./printable.ts";

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
    if (this.#mode === "json") this.#json({ ok: true, ...document });
    if (this.#mode === "text" && lines.length > 0) write("stdout", `${lines.join("\n")}\n`);
  }

  /** A warning that does not end the command. Not part of the JSON output. */
  note(line: string): void {
    if (this.#mode === "text") write("stderr", `${printable(line)}\n`);
  }

  /** Prints why the command failed. In text mode, `usage` is shown below it. */
  failure(error: CommandError, usage?: string): void {
    if (this.#mode === "json") this.#json({ ok: false, error: error.code, message: error.message });
    if (this.#mode !== "text") return;
    const line = printable(error.isReport ? error.message : `holdfast: ${error.message}`);
    write("stderr", usage === undefined ? `${line}\n` : `${line}\n${usage}\n`);
  }

  #json(document: object): void {
    write("stdout", `${JSON.stringify(document)}\n`);
  }
}

/** The streams are accessed only when there is output: they take milliseconds to load. */
function write(name: "stdout" | "stderr", text: string): void {
  const stream = process[name];
  // If the reader of our output goes away, the lock must not be given up.
  if (stream.listenerCount("error") === 0) stream.on("error", () => {});
  stream.write(text);
}
