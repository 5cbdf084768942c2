/** The examples in the documents about lock files, run as they are printed. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { isAsPrinted } from "../support/examples.ts";
import { Folder } from "./support/folder.ts";
import { Shell } from "./support/shell.ts";

const read = (file: string) => readFileSync(new URL(`../../docs/${file}`, import.meta.url), "utf8");
const LIBRARY = fileURLToPath(new URL("../../src/lockfile/index.ts", import.meta.url));
const [, FILE_SECTION = ""] = /^(## holdfast file\n.*?)(?=^## |$(?![\s\S]))/ms.exec(read("cli.md")) ?? [];
const EXAMPLE = /^```sh\n(.*?)^```$\n\n(?:^```text\n(.*?)^```$)?/gms;

const run = promisify(execFile);

describe("every example prints what stands below it", () => {
  test.each([
    ["lock-files.md", read("lock-files.md"), 7],
    ["cli.md", FILE_SECTION, 3],
  ])("in %s", async (_, markdown, count) => {
    using folder = new Folder();
    using shell = new Shell(folder.path);
    const examples = [...markdown.matchAll(EXAMPLE)];
    expect(examples).toHaveLength(count);
    for (const [, commands = "", pattern = ""] of examples) {
      const { out } = await shell.run(`{ ${commands}\n} 2>&1`);
      if (!isAsPrinted({ kind: "text", pattern: pattern.trimEnd() }, out))
        expect.fail(`${commands}\nshould print\n${pattern}\nand prints\n${out}`);
    }
    expect(folder.names.filter((name) => !name.endsWith(".sh"))).toEqual([]);
  });
});

describe("the programs in lock-files.md", () => {
  const programs = [...read("lock-files.md").matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);

  test.each(programs)("%#: print what their comments say", async (code) => {
    using folder = new Folder();
    const program = folder.file("program.mts");
    writeFileSync(program, code.replaceAll("holdfast-client/lockfile", LIBRARY));
    const { stdout, stderr } = await run(process.execPath, [program], { cwd: folder.path });
    const printed = [...code.matchAll(/console\.log\(.*\/\/ (.+)$/gm)].map(([, comment]) => `${comment}\n`);
    expect([stdout, stderr]).toEqual([printed.join(""), ""]);
  });

  test("are of the right types", async () => {
    expect(programs).toHaveLength(2);
    using folder = new Folder();
    const root = fileURLToPath(new URL("../../", import.meta.url));
    for (const [index, code] of programs.entries()) writeFileSync(folder.file(`${index}.ts`), code);
    const compilerOptions = {
      types: ["node"],
      typeRoots: [`${root}node_modules/@types`],
      lib: ["ES2024", "ESNext.Disposable", "DOM"],
      paths: { "holdfast-client/lockfile": [LIBRARY] },
    };
    const config = { extends: `${root}tsconfig.json`, compilerOptions, include: ["*.ts"], exclude: [] };
    writeFileSync(folder.file("tsconfig.json"), JSON.stringify(config));
    const checker = fileURLToPath(import.meta.resolve("typescript/package.json")).replace(/package\.json$/, "bin/tsc");
    const complaints = await run(process.execPath, [checker, "-p", folder.path]).then(
      ({ stdout }) => stdout,
      ({ stdout }: { stdout: string }) => stdout || "the type checker failed",
    );
    expect(complaints).toBe("");
  });
});
