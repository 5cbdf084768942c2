import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const COMMAND = fileURLToPath(new URL("../../../dist/holdfast.js", import.meta.url));

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly ms: number;
}

/**
 * A shell that stays open: what runs in it has the same parent process. `holdfast` is the built command. Close it, or use it
 * with `using`.
 */
export class Shell implements Disposable {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;
  /** Not in the folder of the locks: tests count the files there. */
  readonly #scratch = mkdtempSync(join(tmpdir(), "holdfast-shell-"));

  constructor(folder: string, env: Readonly<Record<string, string>> = {}) {
    const clean = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
    // It replaces itself by the command, whose parent is then the one that called it.
    writeFileSync(join(this.#scratch, "holdfast"), `#!/bin/sh\nexec '${process.execPath}' '${COMMAND}' "$@"\n`, {
      mode: 0o755,
    });
    const PATH = [this.#scratch, process.env.PATH].join(delimiter);
    this.#child = spawn("sh", { cwd: folder, env: { ...Object.fromEntries(clean), PATH, ...env } });
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Runs a script in this shell. One at a time. */
  async run(script: string): Promise<Ran> {
    const [out, err] = [join(this.#scratch, "out"), join(this.#scratch, "err")];
    const startedAt = performance.now();
    this.#child.stdin.write(`{ ${script}\n} >'${out}' 2>'${err}' </dev/null; echo "done $?"\n`);
    const { value, done } = await this.#lines.next();
    const code = /^done (\d+)$/.exec(done ? "" : value)?.[1];
    if (code === undefined) throw new Error(`the shell ended, or said ${value}`);
    const ms = performance.now() - startedAt;
    return { code: Number(code), out: readFileSync(out, "utf8"), err: readFileSync(err, "utf8"), ms };
  }

  /** The exit code alone. */
  async code(script: string): Promise<number> {
    return (await this.run(script)).code;
  }

  /** Runs a command with `--json` and gives the one line it prints, and the exit code. */
  async json(script: string): Promise<Record<string, unknown> & { readonly exit: number }> {
    const { code: exit, out, err } = await this.run(`${script} --json`);
    if (err !== "" || !/^[^\n]+\n$/.test(out)) throw new Error(`not one line of JSON: ${out}${err}`);
    return { ...(JSON.parse(out) as Record<string, unknown>), exit };
  }

  [Symbol.dispose](): void {
    this.#child.kill("SIGKILL");
    rmSync(this.#scratch, { recursive: true, force: true });
  }
}
