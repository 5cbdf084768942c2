import { ROUTES } from "./routes.ts";

const TEMPLATES = [...new Set(ROUTES.map(({ path }) => path))].map((path) => ({ path, segments: path.split("/") }));

/** The template of the route that serves this path, by whatever method; undefined if there is none. */
export function templateOf(path: string): string | undefined {
  const given = path.split("/");
  return TEMPLATES.find(({ segments }) => fits(segments, given))?.path;
}

function fits(segments: readonly string[], given: readonly string[]): boolean {
  if (segments.length !== given.length) return false;
  return segments.every((segment, index) => (segment.startsWith("{") ? given[index] !== "" : given[index] === segment));
}
