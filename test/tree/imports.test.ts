/** What may import what. The folders are described in CONTRIBUTING.md. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../../src", import.meta.url));

/** Small files without imports, for everybody on the server's side. */
const COMMON = ["config.ts", "hash.ts", "hex.ts", "locations.ts", "log.ts", "relay-peers.ts", "version.ts"];
const PACKAGE = "../package.json";
const BUILT_PAGE = "../dist/console";

/** What each folder may import besides itself: other folders and files of `src`, and packages. */
const ALLOWED: Readonly<Record<string, readonly (string | RegExp)[]>> = {
  engine: [],
  protocols: [],
  metrics: ["protocols"],
  auth: ["config.ts", "jose"],
  relay: ["engine", "protocols"],
  session: ["engine", "protocols", "auth", "config.ts"],
  objects: ["engine", "relay", "session", "protocols", "metrics", "auth", "reports", ...COMMON, /^cloudflare:/],
  reports: ["engine", "objects", "metrics", "auth", "log.ts"],
  transports: ["objects", "session", "protocols", "config.ts"],
  http: [
    "engine",
    "session",
    "objects",
    "protocols",
    "metrics",
    "auth",
    "reports",
    "transports",
    ...COMMON,
    BUILT_PAGE,
    /^@?hono/,
  ],
  client: [],
  lockfile: ["protocols", /^node:/],
  front: ["protocols", "config.ts", /^node:/, "ws"],
  cli: ["client", "lockfile", "protocols", "front", "config.ts", /^node:/, "commander", "ws"],
  console: ["client", /^hono\/jsx/, "uplot"],
  "config.ts": ["locations.ts", "relay-peers.ts"],
  "hash.ts": [],
  "hex.ts": [],
  "locations.ts": [],
  "log.ts": [],
  "relay-peers.ts": [],
  "version.ts": [PACKAGE],
  "index.ts": ["http", "objects", "transports"],
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

/** The folder of a file of `src`; one that stands at the top, or beside folders, stands for itself. */
function roomOf(path: string): string {
  const parts = path.split("/");
  const isBesideFolders =
    parts.length === 2 && IMPORTS.some(({ from }) => from.split("/")[2] && topOf(from) === parts[0]);
  return parts.length === 1 || isBesideFolders ? path : parts.slice(0, parts.length > 2 ? 2 : 1).join("/");
}

describe("imports", () => {
  it("were found at all", () => {
    expect(IMPORTS.length).toBeGreaterThan(1_000);
    expect(new Set(IMPORTS.map(({ from }) => topOf(from)))).toContain("engine");
  });

  it("stay within what their folder may know", () => {
    const isAllowed = ({ from, to }: Import) =>
      topOf(from) === topOf(to) ||
      (ALLOWED[topOf(from)] ?? []).some((rule) =>
        typeof rule === "string" ? to === rule || to.startsWith(`${rule}/`) : rule.test(to),
      );
    const foreign = IMPORTS.filter((each) => !isAllowed(each)).map(({ from, to }) => `${from} imports ${to}`);
    expect(foreign).toEqual([]);
  });

  it("lead from folder to folder in no circle", () => {
    const next = new Map<string, Set<string>>();
    for (const { from, to, isRun } of IMPORTS) {
      if (!isRun || !/\.tsx?$/.test(to)) continue;
      const [a, b] = [roomOf(from), roomOf(to)];
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
