import { parseArgs } from "node:util";

export interface ClusterOptions {
  readonly size: number;
  /** Undefined: nobody is killed. */
  readonly killEverySeconds: number | undefined;
  /** The first port; undefined: free ones. */
  readonly port: number | undefined;
  readonly dataDir: string;
}

export class UsageError extends Error {}

const MAX_SIZE = 9;

export function readClusterOptions(args: readonly string[]): ClusterOptions {
  const { values, positionals } = parsed(args);
  const size = numberOf("the number of servers", positionals[0] ?? "3");
  if (positionals.length > 1 || size < 1 || size > MAX_SIZE || !Number.isInteger(size))
    throw new UsageError(`the number of servers must be one whole number from 1 to ${MAX_SIZE}`);
  const killEvery = values["kill-every"];
  return {
    size,
    killEverySeconds: killEvery === undefined ? undefined : numberOf("--kill-every", killEvery),
    port: values.port === undefined ? undefined : numberOf("--port", values.port),
    dataDir: values["data-dir"],
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        "kill-every": { type: "string" },
        port: { type: "string" },
        "data-dir": { type: "string", default: ".holdfast-cluster" },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function numberOf(what: string, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0) throw new UsageError(`${what} must be a number above 0`);
  return value;
}
