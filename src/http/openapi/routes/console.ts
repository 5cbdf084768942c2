import { failures } from "./failures.ts";
import { type ApiOperation, page, text } from "./operation.ts";

const SHARED = { method: "get", tags: ["introspection"], security: [] } satisfies Partial<ApiOperation>;
const FAILURES = failures("RateLimited", "Failed");

/** The console and the two files it consists of. */
export const consoleOperations = {
  getConsole: {
    ...SHARED,
    path: "/",
    summary: "The console",
    description:
      "A page for browsers: who holds what and who waits, live, and a playground. It loads nothing from elsewhere, and shows " +
      "nothing before its user has shown a token, where one is set.",
    responses: { 200: text("The page.", "text/html", "<!doctype html>…"), ...FAILURES },
  },
  getConsoleScript: {
    ...SHARED,
    path: "/console.js",
    summary: "The console's script",
    description: "What the page at `/` runs.",
    responses: { 200: page("The script.", "text/javascript", "…"), ...FAILURES },
  },
  getConsoleStyle: {
    ...SHARED,
    path: "/console.css",
    summary: "The console's style",
    description: "How the page at `/` looks.",
    responses: { 200: page("The style sheet.", "text/css", "…"), ...FAILURES },
  },
} satisfies Record<string, ApiOperation>;
