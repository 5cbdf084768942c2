import { ROUTES } from "./routes.ts";

const PATHS = [...new Set(ROUTES.map(({ path }) => path))].map((path) => ({ path, segments: path.split("/") }));
const BY_LENGTH = Map.groupBy(PATHS, ({ segments }) => segments.length);

/** The template of the route that serves this path with any method; undefined if there is none. */
export function templateOf(path: string): string | undefined {
  const given = path.split("/");
  return BY_LENGTH.get(given.length)?.find(({ segments }) => fits(segments, given))?.path;
}

function fits(segments: readonly string[], given: readonly string[]): boolean {
  return segments.every((segment, index) => (segment.startsWith("{") ? given[index] !== "" : given[index] === segment));
}
