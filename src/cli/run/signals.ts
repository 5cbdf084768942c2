import { readFileSync } from "node:fs";
import { Interrupted } from "../output/errors.ts";
import { numberOf, type RunningCommand } from "./command.ts";

const PASSED_ON = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
/** Signals that a terminal sends to every process of its foreground group. */
const FROM_KEYBOARD: ReadonlySet<string> = new Set(["SIGINT", "SIGQUIT"]);

/** Routes signals: they end the wait for a lock, and are passed on to the command once it runs. */
export class SignalRelay {
  readonly #waiting = new AbortController();
  #command: RunningCommand | undefined;

  constructor() {
    for (const signal of PASSED_ON) process.on(signal, () => this.#take(signal));
  }

  /** Aborts with an `Interrupted` if a signal arrives before the command runs. */
  get interrupted(): AbortSignal {
    return this.#waiting.signal;
  }

  passTo(command: RunningCommand): void {
    this.#command = command;
  }

  #take(signal: NodeJS.Signals): void {
    if (!this.#command) this.#waiting.abort(new Interrupted(numberOf(signal)));
    // Otherwise the command would get Ctrl-C twice, and many programs treat the second one as a forced quit.
    else if (!FROM_KEYBOARD.has(signal) || !isInForeground()) this.#command.signal(signal);
  }
}

/** Whether the terminal's keyboard signals reach us and everything we have started. */
export function isInForeground(stat: () => string = () => readFileSync("/proc/self/stat", "utf8")): boolean {
  try {
    // The name of the program, in brackets, may contain anything.
    const fields = stat()
      .replace(/^.*\) /s, "")
      .split(" ");
    const [, , group, , terminal, foregroundGroup] = fields;
    return terminal !== "0" && group === foregroundGroup;
  } catch {
    // Not on Linux: assume so if there is a terminal at all.
    return process.stdin.isTTY === true || process.stderr.isTTY === true;
  }
}
