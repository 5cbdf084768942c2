import type { CommandError } from "./errors.ts";
import { printable } from "./printable.ts";

/** How a command speaks: to a person, to a program, or not at all. */
export type OutputMode = "text" | "json" | "quiet";

/** Results go to standard output, complaints to standard error; with `--json`, everything is a line of JSON on standard output. */
export class Printer {
  readonly #mode: OutputMode;

  constructor(mode: OutputMode) {
    this.#mode = mode;
  }

  /** What was found or done. The document gets `"ok":true` in front. */
  result(document: object, lines: readonly string[]): void {
    if (this.#mode === "json") this.#json({ ok: true, ...document });
    if (this.#mode === "text" && lines.length > 0) process.stdout.write(`${lines.join("\n")}\n`);
  }

  /** A remark that does not end the command. Programs do not hear it. */
  note(line: string): void {
    if (this.#mode === "text") process.stderr.write(`${printable(line)}\n`);
  }

  /** Why the command ends. `usage` is shown to people below it. */
  failure(error: CommandError, usage?: string): void {
    if (this.#mode === "json") this.#json({ ok: false, error: error.code, message: error.message });
    if (this.#mode !== "text") return;
    const line = printable(error.isReport ? error.message : `holdfast: ${error.message}`);
    process.stderr.write(usage === undefined ? `${line}\n` : `${line}\n${usage}\n`);
  }

  #json(document: object): void {
    process.stdout.write(`${JSON.stringify(document)}\n`);
  }
}
