import { describe, expect, it } from "vitest";
import { JSON_OUTPUT, QUIET, TIMEOUT } from "../../../src/cli/args/flags.ts";
import { parseArguments } from "../../../src/cli/args/parse.ts";
import type { CommandSpec } from "../../../src/cli/args/spec.ts";
import { secondsIn } from "../../../src/cli/args/values.ts";

const SPEC: CommandSpec = {
  name: "test",
  summary: "",
  about: "",
  operands: ["KEY"],
  flags: [TIMEOUT, QUIET, JSON_OUTPUT],
  examples: [],
};
const parse = (...words: string[]) => parseArguments(SPEC, words);

describe("a command line", () => {
  it("takes flags before and after operands, with = or a blank", () => {
    for (const words of [
      ["k", "--timeout", "5"],
      ["--timeout=5", "k"],
      ["--timeout", "5", "k"],
      ["k", "--timeout=5"],
    ]) {
      const args = parse(...words);
      expect([args.operands, args.text(TIMEOUT)]).toEqual([["k"], "5"]);
    }
  });

  it("counts the last of a repeated flag, and knows short names", () => {
    expect(parse("k", "--timeout", "5", "--timeout", "7").text(TIMEOUT)).toBe("7");
    expect([parse("k", "-q").has(QUIET), parse("k", "-q").has(JSON_OUTPUT)]).toEqual([true, false]);
  });

  it("keeps all values of a repeated flag, in the order given", () => {
    expect(parse("k", "--timeout", "5", "-q", "--timeout=7", "--timeout", "5").texts(TIMEOUT)).toEqual(["5", "7", "5"]);
    expect(parse("k").texts(TIMEOUT)).toEqual([]);
  });

  it("ends its flags with --", () => {
    expect(parse("--", "--timeout").operands).toEqual(["--timeout"]);
    const running = { ...SPEC, command: "optional" } as const;
    expect(parseArguments(running, ["k", "--", "ls", "--json", "--", "x"]).command).toEqual([
      "ls",
      "--json",
      "--",
      "x",
    ]);
    expect(parseArguments(running, ["k", "--", "ls", "--json"]).has(JSON_OUTPUT)).toBe(false);
  });

  it("lets a flag stand without its value where that is optional", () => {
    const draining = { name: "--draining", value: "true|false", isValueOptional: true } as const;
    const values = (...words: string[]) => parseArguments({ ...SPEC, operands: [], flags: [draining, TIMEOUT] }, words);
    expect(values("--draining", "--timeout", "1").values).toEqual({ "--draining": "true", "--timeout": "1" });
    expect(values("--draining", "false").values).toEqual({ "--draining": "false" });
    expect(values("--draining=no").values).toEqual({ "--draining": "no" });
    expect(values("--draining=no", "false").problem).toBe("too many arguments, 1 instead of 0");
  });

  it("takes a lone hyphen as an operand, and an empty one", () => {
    expect(parse("-").operands).toEqual(["-"]);
    expect(parse("").operands).toEqual([""]);
  });

  it.each([["--timeout"], ["--timeout", "--"], ["--quiet=1", "k"], ["--nope", "k"], ["k", "l"], []])(
    "refuses %j",
    (...words) => {
      expect(parse(...words).problem).toEqual(expect.any(String));
    },
  );
});

describe("seconds", () => {
  const seconds = (text: string) => secondsIn(parse("k", `--timeout=${text}`), TIMEOUT);

  it("are whole or have up to three decimals", () => {
    expect(["0", "10", "1.5", "0.001", "007", "9223372036"].map(seconds)).toEqual([
      0, 10, 1.5, 0.001, 7, 9_223_372_036,
    ]);
  });

  it.each([
    "",
    "-1",
    "+1",
    "1.",
    ".5",
    "1.2345",
    "1e3",
    "abc",
    "1 ",
    "0x10",
    "9223372036.001",
    "9223372037",
    "Infinity",
  ])("are not %j", (text) => {
    expect(() => seconds(text)).toThrow("--timeout must be seconds");
  });
});
