/** The order in which things are taken and given back, with holds of the test's own and real commands. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { CommandError } from "../../../src/cli/output/errors.ts";
import { Printer } from "../../../src/cli/output/printer.ts";
import type { Plan } from "../../../src/cli/run/plan.ts";
import { runWhileHeld } from "../../../src/cli/run/run.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
const listening = new Map(SIGNALS.map((signal) => [signal, process.listeners(signal)]));
const story: string[] = [];
const stderr: string[] = [];

/** Something to hold that says when it is taken and given back. */
function take(
  name: string,
  options: { error?: Error; complaint?: string; lost?: Promise<string>; key?: string; place?: number } = {},
): Plan["takes"][number] {
  return async ({ timeoutMs }) => {
    story.push(`take ${name} ${timeoutMs === undefined ? "without limit" : timeoutMs <= 1_000 ? "in time" : "late"}`);
    if (options.error) throw options.error;
    return {
      variables: { [`HELD_${name}`]: name, ...(options.key !== undefined && { KEY: options.key }) },
      ...(options.place !== undefined && { place: options.place }),
      lost: options.lost ?? new Promise(() => {}),
      release: async () => {
        story.push(`release ${name}`);
        return options.complaint;
      },
    };
  };
}

async function run(plan: Partial<Plan>, command: string[] = ["true"]): Promise<number> {
  const printer = new Printer("text");
  vi.spyOn(printer, "note").mockImplementation((line) => void stderr.push(`${line}\n`));
  return runWhileHeld({ takes: [], timeoutMs: undefined, onLost: "kill", ...plan }, command, printer);
}

afterEach(() => {
  vi.restoreAllMocks();
  story.length = 0;
  stderr.length = 0;
  for (const signal of SIGNALS) {
    const others = listening.get(signal) ?? [];
    for (const listener of process.listeners(signal)) if (!others.includes(listener)) process.off(signal, listener);
  }
});

describe("what a command is run under", () => {
  it("is taken in order, given back in reverse, and shown to the command", async () => {
    const command = ["sh", "-c", '[ "$HELD_file$HELD_key" = filekey ] || exit 9; exit 3'];
    expect(await run({ takes: [take("file"), take("key")], timeoutMs: 1_000 }, command)).toBe(3);
    expect(story).toEqual(["take file in time", "take key in time", "release key", "release file"]);
    expect(stderr).toEqual([]);
  });

  it("is listed in the order given, whatever order it is taken in", async () => {
    const takes = [
      take("a", { key: "x", place: 2 }),
      take("b", { key: "y", place: 0 }),
      take("c", { key: "z", place: 1 }),
    ];
    expect(await run({ takes }, ["sh", "-c", '[ "$KEY" = "y z x" ]'])).toBe(0);
    expect(story.slice(3)).toEqual(["release c", "release b", "release a"]);
  });

  it("is given back when something else cannot be had, and the command does not run", async () => {
    const error = new CommandError("busy", "busy key", { isReport: true });
    await expect(run({ takes: [take("file"), take("key", { error })] }, ["no-such-command"])).rejects.toBe(error);
    expect(story).toEqual(["take file without limit", "take key without limit", "release file"]);
    expect(stderr).toEqual([]);
  });

  it("may be lost while the rest is waited for: the command does not run", async () => {
    const waitsForEver: Plan["takes"][number] = ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const takes = [take("file", { lost: Promise.resolve("lost file") }), waitsForEver];
    await expect(run({ takes }, ["no-such-command"])).rejects.toMatchObject({ code: "lost", message: "lost file" });
    expect(story).toEqual(["take file without limit", "release file"]);
  });

  it("is given back when the command cannot be started", async () => {
    expect(await run({ takes: [take("file")] }, ["no-such-command"])).toBe(127);
    expect(story).toEqual(["take file without limit", "release file"]);
  });

  it("may complain when it is given back, which changes nothing about the exit code", async () => {
    const takes = [take("file", { complaint: "file is stuck" }), take("key", { complaint: "key is stuck" })];
    expect(await run({ takes }, ["sh", "-c", "exit 4"])).toBe(4);
    expect(stderr).toEqual(["holdfast: key is stuck\n", "holdfast: file is stuck\n"]);
  });

  it("is reported for each that is lost, where the command is to go on", async () => {
    // No timer fires before the command is started: nothing is waited for until then.
    const lost = (name: string) => new Promise<string>((resolve) => setTimeout(resolve, 0, `lost ${name}`));
    const takes = [take("file", { lost: lost("file") }), take("key", { lost: lost("key") })];
    expect(await run({ takes, onLost: "warn" }, ["sh", "-c", "sleep 0.2; exit 6"])).toBe(6);
    expect(stderr.toSorted()).toEqual(["lost file\n", "lost key\n"]);
    expect(story.slice(2)).toEqual(["release key", "release file"]);
  });

  it("is given back after a loss too, and the exit code says that it was lost", async () => {
    const takes = [take("file"), take("key", { lost: Promise.resolve("lost key") })];
    expect(await run({ takes }, ["sleep", "30"])).toBe(76);
    expect(stderr).toEqual(["lost key\n"]);
    expect(story.slice(2)).toEqual(["release key", "release file"]);
  });
});
