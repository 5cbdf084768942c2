import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/** The calls by which a lock file is read and changed. */
export const CALLS = [
  "lstatSync",
  "statSync",
  "openSync",
  "fstatSync",
  "readSync",
  "writeSync",
  "ftruncateSync",
  "fsyncSync",
  "closeSync",
  "linkSync",
  "renameSync",
  "unlinkSync",
  "readdirSync",
] as const;

export type CallName = (typeof CALLS)[number];

/** Runs before each such call of this process, with the name and arguments of the call. What it throws, the call throws. */
export type Hook = (name: CallName, args: readonly unknown[]) => void;

type Functions = Record<CallName, (...args: unknown[]) => unknown>;

/** The calls as they are, whatever is interposed. */
export const real = Object.fromEntries(CALLS.map((name) => [name, fs[name]])) as Pick<typeof fs, CallName>;

/** Puts the hook before every system call of lock files until it is disposed of. One at a time; the hook's own calls pass. */
export function interpose(hook: Hook): Disposable {
  const functions = fs as unknown as Functions;
  let isInside = false;
  for (const name of CALLS) {
    functions[name] = (...args) => {
      if (!isInside) {
        isInside = true;
        try {
          hook(name, args);
        } finally {
          isInside = false;
        }
      }
      return (real[name] as (...args: unknown[]) => unknown)(...args);
    };
  }
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      Object.assign(functions, real);
      syncBuiltinESMExports();
    },
  };
}

/** An error as the system gives it. */
export function systemError(code: string, errno: number): Error {
  return Object.assign(new Error(`${code}: as in a test`), { code, errno });
}
