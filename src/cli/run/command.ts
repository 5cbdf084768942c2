import { type ChildProcess, spawn } from "node:child_process";
import { constants } from "node:os";
import { codeOf, reasonOf } from "../../node/listeners/failure.ts";

const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;
const KILLED_AFTER_MS = 10_000;

/** How a command ended: with an exit code, or without starting at all. */
export type CommandEnd =
  | { readonly type: "ended"; readonly exitCode: number }
  | { readonly type: "not started"; readonly exitCode: number; readonly reason: string };

export function numberOf(signal: NodeJS.Signals): number {
  return constants.signals[signal];
}

/** A command run without a shell, with our own standard input, output and error. */
export class RunningCommand {
  readonly ended: Promise<CommandEnd>;
  #child: ChildProcess | undefined;
  #killTimer: NodeJS.Timeout | undefined;

  constructor([file = "", ...args]: readonly string[], variables: Readonly<Record<string, string>>) {
    this.ended = new Promise((resolve) => {
      try {
        const child = spawn(file, args, { stdio: "inherit", env: { ...process.env, ...variables } });
        this.#child = child;
        child.once("error", (error) => resolve(notStarted(file, error)));
        child.once("exit", (code, signal) => {
          clearTimeout(this.#killTimer);
          resolve({ type: "ended", exitCode: signal === null ? (code ?? 0) : 128 + numberOf(signal) });
        });
      } catch (error) {
        resolve(notStarted(file, error));
      }
    });
  }

  /** Does nothing if the command has ended. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** Asks it to end, and kills it if it is still running ten seconds later. */
  stop(): void {
    this.signal("SIGTERM");
    this.#killTimer ??= setTimeout(() => this.signal("SIGKILL"), KILLED_AFTER_MS);
  }
}

function notStarted(file: string, error: unknown): CommandEnd {
  const isMissing = codeOf(error) === "ENOENT" || file === "";
  const reason = isMissing ? "command not found" : reasonOf(error);
  return { type: "not started", exitCode: isMissing ? NOT_FOUND : NOT_EXECUTABLE, reason: `${file}: ${reason}` };
}
