declare module "vitest" {
  interface ProvidedContext {
    /** How long a crossing takes, in ms: what `npm run distance` asks for. */
    crossingsMs?: readonly number[];
  }
}

/** A path of `test/cloudflare/distance/paths.ts` as it was measured, with objects more and less far apart. */
export interface MeasuredPath {
  readonly name: string;
  /** Calls in sequence. */
  readonly calls: number;
  /** What crosses between objects in sequence: calls, answers, and what is pushed over sockets. */
  readonly crossings: number;
  readonly times: readonly { readonly crossingMs: number; readonly elapsedMs: number }[];
}

/** The table that `npm run distance` prints. */
export function distanceTable(paths: readonly MeasuredPath[]): string {
  const distances = paths[0]?.times.map(({ crossingMs }) => `${crossingMs} ms`) ?? [];
  const rows = [
    ["what a client waits for", "calls", "crossings", ...distances],
    ...paths.map(({ name, calls, crossings, times }) =>
      [name, calls, crossings, ...times.map(({ elapsedMs }) => elapsedMs)].map(String),
    ),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  return rows
    .map((row) => row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0))))
    .map((row) => row.join("  "))
    .join("\n");
}
