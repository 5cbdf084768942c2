/** docs/client.md and the README's example: compiled, run, and complete. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as errors from "../../src/client/errors.ts";
import { startServe } from "../cli/support.ts";
import { isAsPrinted } from "../support/examples.ts";
import { type Program, programsOf, Workshop } from "../support/programs.ts";
import { tableUnder } from "../support/tables.ts";

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
const GUIDE = read("docs/client.md");
const README = read("README.md");
const ALL = [...programsOf(GUIDE), ...programsOf(README)];

let workshop: Workshop;
beforeAll(() => {
  workshop = new Workshop();
});
afterAll(() => workshop[Symbol.dispose]());

async function expectAsPrinted(program: Program): Promise<void> {
  const server = await startServe({ args: [...program.flags] });
  const output = await workshop.run(program, server.httpPort);
  const pattern = program.printed.join("\n");
  expect(pattern).not.toBe("");
  if (!isAsPrinted({ kind: "text", pattern }, output)) expect(output).toBe(pattern);
}

describe("every example", () => {
  it("compiles, with the types as they are built", async () => {
    expect(await workshop.check(ALL)).toBe("");
  });

  it.each(programsOf(GUIDE).map((program) => [program.title, program] as const))(
    "prints what stands beside it: %s",
    (_, program) => expectAsPrinted(program),
  );

  it.each(programsOf(README).map((program) => [program.title, program] as const))(
    "prints what stands beside it, in the README: %s",
    (_, program) => expectAsPrinted(program),
  );

  it("that is wrong is noticed", async () => {
    const wrong = programsOf('```ts\nawait locks.query(7);\nconsole.log("a"); // b\n```\n');
    using other = new Workshop();
    expect(await other.check(wrong)).toContain("error TS2345");
    expect(wrong[0]?.printed).toEqual(["b"]);
    expect(isAsPrinted({ kind: "text", pattern: "b" }, "a\n")).toBe(false);
  });
});

describe("the tables are complete", () => {
  const SOURCE = read("src/client/errors.ts");

  it("errors", () => {
    const instances = [
      new errors.AcquireTimeoutError("key"),
      new errors.LockLostError("key", "expired"),
      new errors.AuthError("no"),
      new errors.LimitMismatchError("key"),
      ...(["max_locks", "max_waiters", "too_many_requests"] as const).map(
        (code) => new errors.CapacityError(code, "key"),
      ),
      new errors.ConnectionError("gone"),
      new errors.DrainingError(),
      ...["error_already_enqueued", "error_not_enqueued", "error"].map((word) => new errors.ProtocolError("key", word)),
    ];
    const [, union = ""] = /type LockErrorCode =(.*?);/s.exec(SOURCE) ?? [];
    const codes = [...union.matchAll(/"(\w+)"/g)].map(([, code]) => code);
    expect(new Set(instances.map(({ code }) => code))).toEqual(new Set(codes));
    const classes = [...SOURCE.matchAll(/\/\*\* (.+) \*\/\nexport class (\w+) extends LockError/g)];
    const rows = classes.map(([, when, name]) => {
      const own = instances.filter((error) => error.name === name).map(({ code }) => `\`${code}\``);
      return [`\`${name}\``, own.join(", "), when];
    });
    expect(tableUnder("| class | code | when |", GUIDE)).toEqual(rows);
  });

  it("reasons of a loss", () => {
    const [, union = ""] = /type LossReason =(.*?);/s.exec(SOURCE) ?? [];
    const reasons = [...union.matchAll(/"(\w+)"/g)].map(([, reason]) => `\`${reason}\``);
    expect(tableUnder("| reason | what happened |", GUIDE).map(([reason]) => reason)).toEqual(reasons);
  });

  it.each([
    ["src/client/connect.ts", ["ConnectOptions"], "## Connecting"],
    [
      "src/client/locks/acquire.ts",
      ["LockOptions", "WaitOptions", "AcquireOptions", "RequestOptions"],
      "## Taking a lock",
    ],
  ])("options in %s", (file, interfaces, heading) => {
    const source = read(file);
    const fields = interfaces.flatMap((name) => {
      const [, body = ""] = new RegExp(`export interface ${name}[^{]*\\{(.*?)^\\}`, "ms").exec(source) ?? [];
      return [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, field]) => `\`${field}\``);
    });
    const section = GUIDE.split(`${heading}\n`)[1] ?? "";
    expect(tableUnder("| option | meaning |", section).map(([option]) => option)).toEqual(fields);
  });

  it("members of a lock", () => {
    const [source = ""] = read("src/client/locks/lock.ts").split("export class Lock ")[1]?.split("\n}\n") ?? [];
    const internal = ["constructor", "check", "verify", "conclude", "isWanted", "want", "handOver"];
    const members = [...source.matchAll(/^ {2}(?:readonly |get )?([a-z]\w*)(\(\)|:)/gm)]
      .map(([, name]) => name)
      .filter((name) => !internal.includes(name ?? ""));
    const rows = tableUnder("| member | meaning |", GUIDE).map(([member = ""]) => member.replace(/[`()]/g, ""));
    expect(rows.sort()).toEqual(members.sort());
  });
});
