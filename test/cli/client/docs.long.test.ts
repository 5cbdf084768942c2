/** `docs/cli.md`: its examples are run, and what it says about flags and exit codes is what the command has. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { flagWords, usageOf } from "../../../src/cli/args/spec.ts";
import { ALL_COMMANDS } from "../../../src/cli/commands/overview.ts";
import { CLIENT_COMMANDS } from "../../../src/cli/commands/table.ts";
import { EXIT_CODES } from "../../../src/cli/output/errors.ts";
import { chaptersOf, isAsPrinted, play } from "../../support/examples.ts";
import { startServer } from "../../support/server.ts";
import { tableUnder } from "../../support/tables.ts";

const MANUAL = readFileSync(new URL("../../../docs/cli.md", import.meta.url), "utf8");
const AGENTS = readFileSync(new URL("../../../docs/agents.md", import.meta.url), "utf8");
const README = readFileSync(new URL("../../../README.md", import.meta.url), "utf8");

describe("every example does what is printed below it", () => {
  // Those of lock files need no server, and are run beside their guide.
  const [withServer = ""] = MANUAL.split(/^## holdfast file$/m);
  for (const [index, { flags, examples }] of chaptersOf(withServer).entries()) {
    it(`part ${index + 1}: holdfast serve ${flags.join(" ")}`, async () => {
      await using server = await startServer({ variables: variablesOf(flags) });
      const outputs = await play(examples, server.httpPort);
      for (const [at, { line, commands, expected }] of examples.entries()) {
        const output = outputs[at] ?? "";
        if (isAsPrinted(expected, output)) continue;
        expect.fail(
          `line ${line}: ${commands}\nshould print\n${expected?.pattern ?? "nothing"}\nand prints\n${output}`,
        );
      }
    });
  }

  it("in docs/agents.md", async () => {
    await using server = await startServer();
    const [{ examples } = { examples: [] }] = chaptersOf(AGENTS);
    const outputs = await play(examples, server.httpPort);
    expect(outputs).toHaveLength(2);
    for (const [at, { expected }] of examples.entries()) {
      expect(isAsPrinted(expected, outputs[at] ?? ""), outputs[at]).toBe(true);
    }
  });

  it("in the README, on its first screen", async () => {
    const [, start = "", block = ""] =
      /^(.*?)^```sh\nnpm run --silent holdfast -- (run [^\n]+)\n```$/ms.exec(README) ?? [];
    expect(start.split("\n").length).toBeLessThan(24);
    await using server = await startServer();
    const [output] = await play([{ line: 1, commands: `holdfast ${block}`, expected: undefined }], server.httpPort);
    expect(output).toMatch(/^[^\n]+\n$/);
  });
});

/** `--auth-token open-sesame` is the variable AUTH_TOKEN. */
function variablesOf(flags: readonly string[]): Record<string, string> {
  const pairs = flags.flatMap((flag, at) => (flag.startsWith("--") ? [[flag, flags[at + 1] ?? ""] as const] : []));
  return Object.fromEntries(pairs.map(([flag, value]) => [flag.slice(2).replaceAll("-", "_").toUpperCase(), value]));
}

/** What stands under a heading, up to the next one. */
function sectionOf(name: string): string {
  const [, section] = new RegExp(`^#+ holdfast ${name}\\n(.*?)(?=^#+ |$(?![\\s\\S]))`, "ms").exec(MANUAL) ?? [];
  if (section === undefined) throw new Error(`no section about ${name}`);
  return section;
}

describe("the manual is complete", () => {
  it("lists every command with its summary", () => {
    const rows = tableUnder("| command | what it does |", MANUAL);
    expect(rows.map(([link = "", summary]) => [/^\[`(\w+)`\]/.exec(link)?.[1], summary])).toEqual(
      ALL_COMMANDS.map(({ name, summary }) => [name, summary]),
    );
  });

  it.each(CLIENT_COMMANDS.map((command) => [command.name, command] as const))(
    "shows the usage of %s",
    (name, command) => {
      const [, synopsis = ""] = /^```\n(.*?)^```$/ms.exec(sectionOf(name)) ?? [];
      expect(`usage: ${synopsis.replaceAll(/\s+/g, " ").trim()}`).toBe(usageOf(command));
    },
  );

  it("explains every flag of run", () => {
    const section = sectionOf("run");
    const run = CLIENT_COMMANDS.find(({ name }) => name === "run");
    const own = run?.flags.filter(({ name }) => !["--url", "--token", "--token-file", "--quiet"].includes(name));
    for (const flag of own ?? []) expect(section).toContain(`| \`${flagWords(flag).split("|")[0]}\` |`);
  });

  it("lists every exit code and what it is called in JSON", () => {
    const rows = tableUnder("| code | `error` | meaning |", MANUAL);
    const listed = rows.flatMap(([code, errors = ""]) =>
      [...errors.matchAll(/`(\w+)`/g)].map(([, error]) => [error, Number(code)]),
    );
    expect(Object.fromEntries(listed)).toEqual(EXIT_CODES);
  });
});
