/** Completion scripts, as far as they can be run or read without the shells they are for. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CompletedCommand, completedCommands } from "../../../src/cli/completion/words.ts";
import { finish } from "../processes.ts";

const COMMANDS = completedCommands();
const scripts: Record<string, string> = {};
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-completion-"));
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, stdout, stderr } = await finish(["completion", shell]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    scripts[shell] = stdout;
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const flagsOf = (name: string) => {
  const { flags } = COMMANDS.find((command) => command.name === name) as CompletedCommand;
  return flags.flatMap((flag) => (flag.short ? [flag.name, flag.short] : [flag.name]));
};

describe.each(["bash", "zsh"])("the words that %s offers", (shell) => {
  /** What the function in the script prints: it is written for any POSIX shell. */
  const offered = (...questions: [command: string, previous: string][]) => {
    const [candidates = ""] = /^_holdfast_words\(\) \{\n.*?^\}$/ms.exec(scripts[shell] ?? "") ?? [];
    const calls = questions.map(([command, previous]) => `_holdfast_words '${command}' '${previous}'`);
    const file = join(folder, `${shell}.sh`);
    writeFileSync(file, `set -eu\n${[candidates, ...calls].join("\n")}\n`);
    return execFileSync("sh", [file], { encoding: "utf8" }).trimEnd().split("\n");
  };

  it("begin with every command", () => {
    const [words = ""] = offered(["", "holdfast"]);
    expect(words.split(" ")).toEqual([...COMMANDS.map(({ name }) => name), "--help", "--version"]);
    expect(words).toMatch(/\brun\b.*\block\b.*\bserve\b/);
  });

  it("are the flags of the command, each of them", () => {
    const answers = offered(...COMMANDS.map(({ name }): [string, string] => [name, name]));
    for (const [index, { name, operands }] of COMMANDS.entries()) {
      expect(answers[index]?.split(" ")).toEqual([...operands, ...flagsOf(name)]);
    }
  });

  it("are values where a flag wants one", () => {
    expect(
      offered(
        ["run", "--on-lost"],
        ["run", "--file"],
        ["ls", "--token-file"],
        ["run", "--key"],
        ["completion", "completion"],
        ["serve", "--draining"],
        ["file", "try"],
      ),
    ).toEqual(["kill warn", "@files", "@files", "@any", "bash zsh fish --help -h", "true false", "@files"]);
    expect(offered(["run", "--quiet"])[0]?.split(" ")).toContain("--key");
  });
});

describe("the script for bash", () => {
  it("registers a function that it defines", () => {
    expect(scripts.bash).toMatch(/^_holdfast\(\) \{$/m);
    expect(scripts.bash).toMatch(/^complete -F _holdfast holdfast$/m);
  });
});

describe("the script for zsh", () => {
  it("begins as compinit wants it, and registers itself when it is evaluated", () => {
    expect(scripts.zsh).toMatch(/^#compdef holdfast\n/);
    expect(scripts.zsh).toMatch(/compdef _holdfast holdfast; fi\n$/);
  });
});

describe("the script for fish", () => {
  /** The words of a line, with fish's quotes undone. */
  const words = (line: string) =>
    [...line.matchAll(/'((?:[^'\\]|\\.)*)'|(\S+)/g)].map(
      ([, quoted, plain]) => plain ?? quoted?.replace(/\\(.)/g, "$1") ?? "",
    );
  const lines = () => {
    const script = (scripts.fish ?? "").replace(/^function .*?^end\n/ms, "");
    return script.trimEnd().split("\n").slice(1).map(words);
  };
  const after = (line: string[], option: string) =>
    line.includes(option) ? line[line.indexOf(option) + 1] : undefined;

  it("has nothing but whole complete commands", () => {
    for (const line of lines()) expect(line.slice(0, 3)).toEqual(["complete", "-c", "holdfast"]);
    expect((scripts.fish?.match(/'/g) ?? []).length % 2).toBe((scripts.fish?.match(/\\'/g) ?? []).length % 2);
  });

  it("offers every command with its summary, and every flag with its help", () => {
    const first = lines().filter((line) => after(line, "-n") === "__fish_use_subcommand" && line.includes("-a"));
    expect(first.map((line) => [after(line, "-a"), after(line, "-d")])).toEqual(
      COMMANDS.map(({ name, summary }) => [name, summary]),
    );
    for (const { name, flags } of COMMANDS) {
      const own = lines().filter((line) => after(line, "-n") === `__holdfast_command ${name}` && line.includes("-l"));
      expect(own.map((line) => [`--${after(line, "-l")}`, after(line, "-d")])).toEqual(
        flags.map((flag) => [flag.name, flag.help]),
      );
      for (const [index, flag] of flags.entries()) {
        const wantsValue = own[index]?.includes("-x") || own[index]?.includes("-r");
        expect(wantsValue, `${name} ${flag.name}`).toBe(flag.value !== undefined);
      }
    }
  });
});
