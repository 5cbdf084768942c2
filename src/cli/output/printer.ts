import type { CommandError } from "./errors.ts";
import { printable } from "./printable.ts";

/** Text for people, JSON for programs, or nothing. */
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
    if (this.#mode === "text" && lines.length > 0) write("stdout", `${lines.join("\n")}\n`);
  }

  /** A warning that does not end the command. Not part of the JSON output. */
  note(line: string): void {
    if (this.#mode === "text") write("stderr", `${printable(line)}\n`);
  }

  /** Why the command ends. `usage` is shown to people below it. */
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

/** The streams are not touched before there is something to say: they take milliseconds to load. */
function write(name: "stdout" | "stderr", text: string): void {
  const stream = process[name];
  // A reader of our output that went away is no reason to give up a lock.
  if (stream.listenerCount("error") === 0) stream.on("error", () => {});
  stream.write(text);
}
