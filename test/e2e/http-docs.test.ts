import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { FAMILIES } from "../../src/core/metrics/families.ts";
import { ERRORS, type ErrorCode, errorRule } from "../../src/http/reply/errors.ts";
import { type Chapter, chaptersOf, isAsPrinted, play } from "../support/examples.ts";
import { tableUnder } from "../support/tables.ts";
import { expectAsPrinted } from "./printed.ts";

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
const GUIDE = read("docs/http-api.md");
const OPERATIONS = read("docs/operations.md");
const [, README_SECTION = ""] = /^## Over HTTP\n(.*?)^## /ms.exec(read("README.md")) ?? [];

describe("every example does what is printed below it", () => {
  it("in the README", async () => {
    const [chapter] = chaptersOf(`\`\`\`sh\nnpm start\n\`\`\`\n${README_SECTION}`);
    await expectAsPrinted(chapter as Chapter);
  });
});

describe("the tables in the documents are complete", () => {
  it("errors", () => {
    const callersHeaders: Partial<Record<ErrorCode, string>> = {
      rate_limited: "Retry-After",
      method_not_allowed: "Allow",
    };
    const rows = (Object.keys(ERRORS) as ErrorCode[]).map((code) => {
      const { status, when, headers = {} } = errorRule(code);
      const header = Object.keys(headers)[0] ?? callersHeaders[code];
      return [String(status), `\`${code}\``, when, header ? `\`${header}\`` : ""];
    });
    expect(tableUnder("| status | code | when | header |", GUIDE)).toEqual(rows);
  });

  it("metrics", () => {
    const rows = Object.entries(FAMILIES).map(([name, { type, labels, help }]) => {
      return [`\`dflockd_${name}\``, type, Object.keys(labels).join(", "), help];
    });
    expect(tableUnder("| metric | type | labels | meaning |", OPERATIONS)).toEqual(rows);
  });
});

describe("links in the documents lead somewhere", () => {
  const ROOT = new URL("../../", import.meta.url);
  const documents = readdirSync(new URL("docs/", ROOT), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".md"))
    .map((file) => `docs/${file}`);
  const anchorOf = (heading: string) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-");
  const headingsOf = (url: URL) =>
    [...readFileSync(url, "utf8").matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));

  it.each(["README.md", "CONTRIBUTING.md", "examples/README.md", ...documents])("%s", (file) => {
    const here = new URL(file, ROOT);
    for (const [, link = ""] of read(file).matchAll(/\]\((?!https?:)([^)\s]+)\)/g)) {
      const target = new URL(link, here);
      const anchor = target.hash.slice(1);
      target.hash = "";
      expect(existsSync(target), link).toBe(true);
      if (anchor !== "") expect(headingsOf(target), link).toContain(anchor);
    }
  });
});

describe("a document whose examples go wrong is noticed", () => {
  const printed = (pattern: string, output: string, kind: "json" | "text" = "text") =>
    isAsPrinted({ kind, pattern }, output);

  it("when something else is printed", () => {
    expect(printed("204", "204\n")).toBe(true);
    expect(printed("204", "404\n")).toBe(false);
    expect(printed("204", "204\n204\n")).toBe(false);
    expect(isAsPrinted(undefined, "204\n")).toBe(false);
    expect(printed('{"remaining_s":9.}', '{"remaining_s":90}\n')).toBe(false);
  });

  it("when a value has another shape", () => {
    expect(printed('{"token":"<token>"}', `{"token":"${"0f".repeat(16)}"}\n`)).toBe(true);
    expect(printed('{"token":"<token>"}', `{"token":"${"0f".repeat(15)}"}\n`)).toBe(false);
    expect(() => printed("<tokn>", "x")).toThrow("<tokn>");
  });

  it("when lines are missing behind those left out", () => {
    expect(printed("one\n…\nthree", "one\ntwo\nthree\n")).toBe(true);
    expect(printed("one\n…\nthree", "one\nthree\n")).toBe(true);
    expect(printed("one\n…\nthree", "one\ntwo\n")).toBe(false);
  });

  it("but not when JSON is only broken over lines", () => {
    expect(printed('{"a":1,\n "b":2}', '  {"a":1,"b":2}\n', "json")).toBe(true);
    expect(printed('{"a":1,\n "b":2}', '{"a":1,"b":3}\n', "json")).toBe(false);
  });

  /** A document with this command, and a server that does not answer. */
  const played = (command: string) => {
    const [chapter] = chaptersOf(`\`\`\`sh\nnpm start\n\`\`\`\n\`\`\`sh\n${command}\n\`\`\`\n`);
    return play((chapter as Chapter).examples, 1);
  };

  it("when a command fails, or answers stand alone", async () => {
    await expect(played("false")).rejects.toThrow("line 5: false");
    await expect(played("x=$(curl -s localhost:6389/health | grep -oE ok)")).rejects.toThrow("line 5: x=");
    await expect(played("curl -s localhost:6389/health | cat")).rejects.toThrow("curl: cannot connect");
    expect(() => chaptersOf("```json\n{}\n```\n")).toThrow("line 2: an answer without a command");
    expect(() => chaptersOf("nothing to see")).toThrow("no examples");
  });

  it("when a program is missing, or called in a way that nothing here stands in for", async () => {
    await expect(played("no-such-program")).rejects.toThrow(/line 5: .*no-such-program: (command )?not found/s);
    await expect(played("no-such-program | cat")).rejects.toThrow(/no-such-program: (command )?not found/);
    await expect(played("curl --fly localhost:6389/health | cat")).rejects.toThrow("--fly is not supported");
    await expect(played("printf x | grep -v y")).rejects.toThrow("-v y is not supported");
  });
});
