/** What may import what. The folders are described in CONTRIBUTING.md. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));

const PACKAGE = "../package.json";
const BUILT_PAGE = "../dist/console";

/**
 * What each room may import besides itself: other rooms and files of `src`, and packages. The longest name that fits a file is its room, so a room
 * inside another has rules of its own.
 */
const ALLOWED: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  "core/engine": [],
  "core/protocols": [],
  "core/hash.ts": [],
  "core/hex.ts": [],
  "core/byte-order.ts": [],
  "core/rate-limit.ts": [],
  "core/session-counts.ts": [],
  "core/session-names.ts": ["core/hash.ts", "core/hex.ts", "core/session-counts.ts"],
  "core/key": ["core/engine", "core/metrics"],
  "core/config": [],
  "core/metrics": ["core/protocols", "core/session/effects.ts", "core/session-counts.ts"],
  "core/auth": ["core/config", "jose"],
  "core/group": ["core/engine", "core/protocols", "core/config", "core/auth/secrets.ts"],
  "core/session": ["core/engine", "core/protocols", "core/auth", "core/config", "core/session-names.ts"],
  // The port and what uses it know neither host.
  "service.ts": ["core", "log.ts"],
  reports: ["core", "service.ts"],
  http: ["core", "service.ts", "reports", "log.ts", "version.ts", BUILT_PAGE, /^@?hono/],
  // The hosts know nothing of each other.
  cloudflare: ["core", "service.ts", "http", "reports", "log.ts", "version.ts", /^cloudflare:/],
  client: [],
  lockfile: ["core/protocols/lockfile", /^node:/],
  // Only what owns sockets, files and time knows the platform.
  "node/listeners": [
    "core",
    "node/clients.ts",
    "service.ts",
    "http/request",
    "http/reply",
    /^node:/,
    "ws",
    "@hono/node-server",
    "@hono/node-server/utils/response",
  ],
  "node/store": ["core", "node/listeners/failure.ts", /^node:/],
  "node/system": ["core", "node/runtime.ts", /^node:/],
  node: ["core", "http", "reports", "service.ts", "log.ts", "version.ts"],
  cli: ["client", "lockfile", "core/protocols", "core/config", "node", "version.ts", /^node:/, "ws"],
  // Loaded by this command only, as are the packages.
  "cli/mcp": [
    "cli",
    "client",
    "node/listeners/failure.ts",
    "version.ts",
    /^node:/,
    "zod",
    /^@modelcontextprotocol\/sdk\/(?:server\/(?:index|stdio)|types)\.js$/,
  ],
  console: ["client", /^hono\/jsx/, "uplot"],
  "log.ts": [],
  "version.ts": [PACKAGE],
};

interface Import {
  /** The file, below `src`. */
  readonly from: string;
  /** The imported file below `src`, or the package. */
  readonly to: string;
  /** False of types, which are gone when the program runs. */
  readonly isRun: boolean;
}

const IMPORT = /^(?:import|export)\s+(type\s+)?(?:([^;"]*?)\s+from\s+)?"([^"]+)"/gm;

function importsOf(path: string): Import[] {
  const from = relative(SRC, path);
  return [...readFileSync(path, "utf8").matchAll(IMPORT)].map(([, type, names = "", specifier = ""]) => {
    const listed = /^\{([^}]*)\}$/s.exec(names.trim())?.[1]?.split(",") ?? [];
    const areTypes = listed.length > 0 && listed.every((name) => name.trim() === "" || name.trim().startsWith("type "));
    const to = specifier.startsWith(".") ? normalize(join(dirname(from), specifier)) : specifier;
    return { from, to, isRun: type === undefined && !areTypes };
  });
}

const IMPORTS = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name))
  .flatMap((name) => importsOf(join(SRC, name)));

const topOf = (path: string) => path.split("/", 1)[0] ?? "";

const isWithin = (path: string, room: string) => path === room || path.startsWith(`${room}/`);

/** The room whose rules a file follows. */
const roomOf = (path: string) =>
  Object.keys(ALLOWED)
    .filter((room) => isWithin(path, room))
    .reduce((longest, room) => (room.length > longest.length ? room : longest), "");

/** The folder of a file of `src`; one that stands at the top, or beside folders, stands for itself. */
function folderOf(path: string): string {
  const parts = path.split("/");
  const isBesideFolders =
    parts.length === 2 && IMPORTS.some(({ from }) => from.split("/")[2] && topOf(from) === parts[0]);
  return parts.length === 1 || isBesideFolders ? path : parts.slice(0, parts.length > 2 ? 2 : 1).join("/");
}

describe("imports", () => {
  it("were found at all", () => {
    expect(IMPORTS.length).toBeGreaterThan(1_000);
    expect(new Set(IMPORTS.map(({ from }) => topOf(from)))).toContain("core");
  });

  it("stay within what their room may know", () => {
    const isAllowed = ({ from, to }: Import) => {
      const room = roomOf(from);
      return (
        isWithin(to, room) ||
        (ALLOWED[room] ?? []).some((rule) => (typeof rule === "string" ? isWithin(to, rule) : rule.test(to)))
      );
    };
    const foreign = IMPORTS.filter((each) => !isAllowed(each)).map(({ from, to }) => `${from} imports ${to}`);
    expect(foreign).toEqual([]);
  });

  it("start from files that have a room", () => {
    expect(IMPORTS.filter(({ from }) => roomOf(from) === "").map(({ from }) => from)).toEqual([]);
  });

  it("lead from folder to folder in no circle", () => {
    const next = new Map<string, Set<string>>();
    for (const { from, to, isRun } of IMPORTS) {
      if (!isRun || !/\.tsx?$/.test(to)) continue;
      const [a, b] = [folderOf(from), folderOf(to)];
      if (a !== b) next.set(a, (next.get(a) ?? new Set()).add(b));
    }
    const circles: string[] = [];
    const done = new Set<string>();
    const visit = (room: string, path: readonly string[]) => {
      if (path.includes(room)) circles.push([...path.slice(path.indexOf(room)), room].join(" → "));
      if (path.includes(room) || done.has(room)) return;
      for (const each of next.get(room) ?? []) visit(each, [...path, room]);
      done.add(room);
    };
    for (const room of next.keys()) visit(room, []);
    expect(circles).toEqual([]);
  });
});
