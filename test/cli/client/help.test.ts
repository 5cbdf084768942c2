import { describe, expect, it } from "vitest";
import { helpOf } from "../../../src/cli/args/help.ts";
import { usageOf } from "../../../src/cli/args/spec.ts";
import { overview } from "../../../src/cli/commands/overview.ts";
import { CLIENT_COMMANDS } from "../../../src/cli/commands/table.ts";
import { finish } from "../processes.ts";

const linesOf = (text: string) => text.replace(/\n$/, "").split("\n");

describe("help", () => {
  it("holdfast --help fits a screen of 24 lines and 80 columns, and names every command", async () => {
    const { code, stdout, stderr } = await finish(["--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe(`${overview()}\n`);
    expect(linesOf(stdout).length).toBeLessThanOrEqual(24);
    expect(Math.max(...linesOf(stdout).map((line) => line.length))).toBeLessThanOrEqual(80);
    for (const name of [...CLIENT_COMMANDS.map((command) => command.name), "file", "serve", "bridge"]) {
      expect(stdout).toMatch(new RegExp(`^  ${name} `, "m"));
    }
  });

  it.each(CLIENT_COMMANDS.map((command) => [command.name, command] as const))(
    "holdfast %s --help has its usage, every flag and an example, in 80 columns",
    async (name, command) => {
      const { code, stdout } = await finish([name, "--help"]);
      expect(code).toBe(0);
      expect(stdout).toBe(`${helpOf(command)}\n`);
      const [usage = "", about] = stdout.split("\n\n");
      expect(usage.replaceAll(/\s+/g, " ")).toBe(usageOf(command));
      expect(about).not.toBe("");
      for (const flag of command.flags) expect(stdout).toContain(`${flag.name} `);
      expect(stdout).toContain(`\nExamples:\n  holdfast ${name}`);
      expect(linesOf(stdout).filter((line) => line.length > 80)).toEqual([]);
    },
  );

  it("--help is answered wherever it stands, but not behind --", async () => {
    expect((await finish(["lock", "k", "-h"])).stdout).toContain("usage: holdfast lock");
    expect(await finish(["lock", "k", "--", "sh", "--help"], { HOLDFAST_URL: "http://127.0.0.1:1" })).toMatchObject({
      code: 69,
    });
  });
});
