import type { Arguments } from "../args/parse.ts";
import { CommandError, EXIT_CODES } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { type CommandEnd, RunningCommand } from "./command.ts";
import type { Hold } from "./hold.ts";
import { type Plan, planOf } from "./plan.ts";
import { SignalRelay } from "./signals.ts";

/** `holdfast run`: the exit code is the command's, or tells why it did not complete. */
export async function main(args: Arguments): Promise<number> {
  const plan = await planOf(args, process.env);
  return runWhileHeld(plan, args.command, new Printer(args.output));
}

/**
 * Takes the locks of the plan in order, runs the command, and releases everything in reverse order, however it ends.
 */
export async function runWhileHeld(plan: Plan, command: readonly string[], printer: Printer): Promise<number> {
  const relay = new SignalRelay();
  const losing = new AbortController();
  const signal = AbortSignal.any([relay.interrupted, losing.signal]);
  const holds: Hold[] = [];
  try {
    const since = performance.now();
    for (const take of plan.takes) {
      const hold = await take({ signal, timeoutMs: leftOf(plan.timeoutMs, since) });
      holds.unshift(hold);
      // The file may be lost while waiting for the key: then the command must not start.
      void hold.lost.then((line) => losing.abort(new CommandError("lost", line, { isReport: true })));
    }
    signal.throwIfAborted();
    const running = new RunningCommand(command, variablesOf(holds));
    relay.passTo(running);
    return await watch(running, holds, plan, printer);
  } finally {
    for (const hold of holds) {
      const complaint = await hold.release();
      if (complaint !== undefined) printer.note(`holdfast: ${complaint}`);
    }
  }
}

/** Of several holds with a variable of the same name, their values with blanks between, which keys do not contain. */
function variablesOf(holds: readonly Hold[]): Readonly<Record<string, string>> {
  const all: Record<string, string> = {};
  for (const { variables } of holds.toSorted((a, b) => (a.place ?? 0) - (b.place ?? 0)))
    for (const [name, value] of Object.entries(variables)) all[name] = name in all ? `${all[name]} ${value}` : value;
  return all;
}

/** What is left of the total time; 0 means one attempt. */
function leftOf(timeoutMs: number | undefined, since: number): number | undefined {
  return timeoutMs && Math.max(0, timeoutMs - (performance.now() - since));
}

async function watch(running: RunningCommand, holds: readonly Hold[], plan: Plan, printer: Printer): Promise<number> {
  const losing = Promise.race(holds.map((hold) => hold.lost));
  const first = await Promise.race([running.ended, losing]);
  if (typeof first !== "string") return exitCodeOf(first, printer);
  if (plan.onLost === "warn") {
    for (const hold of holds) void hold.lost.then((line) => printer.note(line));
    return exitCodeOf(await running.ended, printer);
  }
  printer.note(first);
  running.stop();
  await running.ended;
  return EXIT_CODES.lost;
}

function exitCodeOf(end: CommandEnd, printer: Printer): number {
  if (end.type === "not started") printer.note(`holdfast: ${end.reason}`);
  return end.exitCode;
}
