import { writeSync } from "node:fs";
import { BAD_OWNER_PID, perform, readOwnerPid } from "./commands.ts";
import { type OutputFlags, parseArguments } from "./flags.ts";
import { done, type Outcome, printable, usage } from "./outcome.ts";
import { COMMANDS, FILE_USAGE, isCommand, usageOf } from "./usage.ts";

/** Runs `holdfast file` with the arguments after `file`. Resolves with the exit code. */
export async function runFile(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  const parsed = parseArguments(rest, isCommand(name) ? COMMANDS[name] : []);
  const print = (outcome: Outcome, output: OutputFlags = parsed) => printOutcome(outcome, output);
  if (parsed.kind === "help" || name === "--help" || name === "-h") {
    const { helpOf } = await import("./help.ts");
    return print(done(helpOf(isCommand(name) ? name : undefined), {}), { isJson: false, isQuiet: false });
  }
  if (!isCommand(name)) {
    const output = { ...parsed, isJson: parsed.isJson || name === "--json" };
    return print(usage(FILE_USAGE, name === undefined ? "no command given" : `unknown command ${name}`), output);
  }
  if (parsed.kind === "usage") return print(usage(usageOf(name), parsed.message));
  const ownerPid = readOwnerPid(process.env);
  if (ownerPid === undefined) return print(usage(usageOf(name), BAD_OWNER_PID));
  const { path, flags, isJson, isQuiet } = parsed;
  const warn = (message: string) => {
    if (!isJson && !isQuiet) write(2, `warning ${printable(message)}`);
  };
  return print(await perform({ command: name, path, flags, ownerPid, warn }));
}

function printOutcome({ exitCode, text, json, isComplaint }: Outcome, { isJson, isQuiet }: OutputFlags): number {
  if (isQuiet) return exitCode;
  if (isJson) write(1, JSON.stringify(json));
  else write(isComplaint ? 2 : 1, text);
  return exitCode;
}

/** Synchronous, and without the process's streams, which are slow to load. */
function write(descriptor: 1 | 2, text: string): void {
  let rest = Buffer.from(`${text}\n`);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(descriptor, rest));
    } catch (error) {
      // EAGAIN: a full non-blocking pipe. Otherwise there is no reader; the exit code still tells the result.
      if ((error as { readonly code?: string }).code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
