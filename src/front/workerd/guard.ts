import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";

/**
 * The shell that starts workerd, so that the guard exists before workerd does. Its standard input is a lifeline: if it
 * ends without data, this process was killed, and the guard kills workerd. Descriptor 4 is the lock on the data
 * directory, which workerd inherits; workerd's process id is written to descriptor 5 and to the file given as first
 * argument.
 *
 * Standard input is duplicated as 6 because a shell detaches background processes from its own.
 */
const SCRIPT = `
pid_file=$1
shift
umask 077
ulimit -n "$(ulimit -H -n)" 2>/dev/null
exec 6<&0
"$@" </dev/null 5>&- 6<&- &
workerd=$!
(
  exec 3>&- 4>&- 5>&- >/dev/null 2>&1
  read -r word <&6 || kill -9 "$workerd"
) &
watch=$!
echo "$workerd" >"$pid_file"
echo "$workerd" >&5
exec 3>&- 4>&- 5>&- 6<&- >/dev/null 2>&1
wait "$workerd"
code=$?
kill -9 "$watch"
exit "$code"
`;

/** Descriptors of the shell beyond the standard ones. */
export const CONTROL_FD = 3;
const PID_FD = 5;

export interface GuardOptions {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly pidFile: string;
  /** An open descriptor that workerd holds as long as it lives. */
  readonly lock: number | undefined;
}

/** Starts the command under its guard. The child is the shell; it exits with the command's exit code. */
export function spawnGuarded({ command, env, pidFile, lock }: GuardOptions): ChildProcess {
  return spawn("sh", ["-c", SCRIPT, "holdfast-guard", pidFile, ...command], {
    // Its own process group: Ctrl-C reaches only the launcher, which then stops workerd in order.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe", lock ?? "ignore", "pipe"],
    env: { PATH: process.env.PATH, ...env },
  });
}

/** The process id of the guarded command; undefined if the shell ended without starting it. */
export function guardedPid(guard: ChildProcess): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = "";
    // The types cover only the first five descriptors.
    const pipe = (guard.stdio as readonly (Readable | null | undefined)[])[PID_FD];
    pipe?.on("data", (bytes: Buffer) => {
      text += bytes.toString("latin1");
      if (text.includes("\n")) resolve(Number.parseInt(text, 10));
    });
    pipe?.once("close", () => resolve(undefined));
    guard.once("error", () => resolve(undefined));
  });
}
