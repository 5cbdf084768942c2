/** Commands of `holdfast` as real processes, for tests that may run side by side. */
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { type Exit, eventually } from "./support.ts";

const COMMAND = fileURLToPath(new URL("../../dist/holdfast.js", import.meta.url));

export interface Started extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly pid: number;
  readonly exited: Promise<Exit>;
  stdout: string;
  stderr: string;
}

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the built command, with nothing of its own variables but those given. Disposing kills it. */
export function start(args: readonly string[], env: Record<string, string> = {}, cwd?: string): Started {
  const clean = Object.entries(process.env).filter(([name]) => !/^(DFLOCKD|HOLDFAST)_/.test(name));
  const child = spawn(process.execPath, [COMMAND, ...args], {
    env: { ...Object.fromEntries(clean), ...env },
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
    ...(cwd === undefined ? {} : { cwd }),
  });
  const exited = new Promise<Exit>((resolve) => child.once("close", (code, signal) => resolve({ code, signal })));
  const started: Started = {
    child,
    pid: child.pid ?? 0,
    exited,
    stdout: "",
    stderr: "",
    async [Symbol.asyncDispose]() {
      try {
        // With everything it has started.
        process.kill(-started.pid, "SIGKILL");
      } catch {
        // All of it has ended.
      }
      await exited;
    },
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    started.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    started.stderr += text;
  });
  child.stdin.on("error", () => {});
  return started;
}

/** Runs the command to its end, with an empty standard input. */
export async function finish(
  args: readonly string[],
  env: Record<string, string> = {},
  cwd?: string,
): Promise<Finished> {
  await using started = start(args, env, cwd);
  started.child.stdin?.end();
  const { code } = await started.exited;
  return { code, stdout: started.stdout, stderr: started.stderr };
}

/** Waits until the command has printed this on standard output. */
export async function printed(started: Started, text: string | RegExp): Promise<string> {
  await eventually(`${text} in ${JSON.stringify(started.stdout + started.stderr)}`, () =>
    typeof text === "string" ? started.stdout.includes(text) : text.test(started.stdout),
  );
  return started.stdout;
}

export const urlOf = ({ httpPort }: { readonly httpPort: number }) => `http://127.0.0.1:${httpPort}`;
