/**
 * Compiles and runs the ```ts examples of a document as programs of their own, with the client as it is built. The blocks under one
 * heading are one program; what stands behind a `console.log` in it, as a comment, is what it must print.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export interface Program {
  /** The heading it stands under. */
  readonly title: string;
  /** Flags of the server it wants. */
  readonly flags: readonly string[];
  readonly code: string;
  /** What it prints, line by line. */
  readonly printed: readonly string[];
}

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const PART = /^## ([^\n]+)$|^```(ts|sh)\n(.*?)^```$/gms;
const START = /^npm start(?: -- (.+))?\n$/;
const PRINTED = /^.*console\.log\(.*\/\/ (.+)$/gm;
const EXPORTS = "AcquireTimeoutError, AuthError, ConnectionError, connect, LimitMismatchError, LockLostError, webLocks";
const run = promisify(execFile);

export function programsOf(markdown: string): Program[] {
  const programs: { title: string; flags: string[]; code: string }[] = [];
  let [title, flags]: [string, string[]] = ["the beginning", []];
  for (const { 1: heading, 2: kind, 3: text = "" } of markdown.matchAll(PART)) {
    if (heading !== undefined) title = heading;
    else if (kind === "sh") flags = START.exec(text)?.[1]?.split(" ") ?? (START.test(text) ? [] : flags);
    else {
      const last = programs.at(-1);
      if (last?.title === title) last.code += text;
      else programs.push({ title, flags, code: text });
    }
  }
  if (programs.length === 0) throw new Error("no examples");
  return programs.map((program) => ({
    ...program,
    printed: [...program.code.matchAll(PRINTED)].map(([, comment = ""]) => comment),
  }));
}

/** The whole program: what the document leaves out because it said it once. */
function wholeOf(code: string): string {
  const clients = ["locks", "other"].filter((name) => new RegExp(`\\b${name}[.)]`).test(code));
  const missing = clients.filter((name) => !code.includes(`const ${name} =`));
  return [
    code.includes("import {") ? "" : `import { ${EXPORTS} } from "holdfast-client";`,
    ...missing.map((name) => `const ${name} = connect("http://127.0.0.1:6389");`),
    // What is left of them by `await using` is given back before they are closed.
    missing.length > 0 ? `{\n${code}}` : code,
    ...missing.map((name) => `await ${name}.close();`),
  ].join("\n");
}

/** A folder of programs in this package, so that they find the client under the name by which its users do. */
export class Workshop implements Disposable {
  readonly #folder = mkdtempSync(join(ROOT, "dist", "examples-"));

  /** The complaints of the type checker about all of them. */
  async check(programs: readonly Program[]): Promise<string> {
    for (const [index, { code }] of programs.entries())
      writeFileSync(join(this.#folder, `${index}.ts`), `${wholeOf(code)}\nexport {};\n`);
    const compilerOptions = {
      types: [],
      lib: ["ES2024", "ESNext.Disposable", "DOM"],
      paths: {},
      noUnusedLocals: false,
    };
    const config = { extends: "../../tsconfig.json", compilerOptions, include: ["*.ts"], exclude: [] };
    writeFileSync(join(this.#folder, "tsconfig.json"), JSON.stringify(config));
    const checker = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(/package\.json$/, "bin/tsc");
    const checked = run(process.execPath, [checker, "-p", this.#folder]);
    return checked.then(
      ({ stdout }) => stdout,
      ({ stdout }: { stdout: string }) => stdout || "the type checker failed",
    );
  }

  /** What the program prints, with the server on this port. Fails if it ends with an error, or not at all. */
  async run({ title, code }: Program, httpPort: number): Promise<string> {
    const file = join(this.#folder, `${title.replaceAll(/\W+/g, "-")}.run.ts`);
    writeFileSync(file, wholeOf(code).replaceAll("127.0.0.1:6389", `127.0.0.1:${httpPort}`));
    const { stdout, stderr } = await run(process.execPath, [file], { timeout: 30_000 });
    if (stderr !== "") throw new Error(`the example under "${title}" complains: ${stderr}`);
    return stdout;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
