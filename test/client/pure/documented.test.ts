/** Every public name of the client says what it is, and every promise how it ends. */
import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const FOLDER = new URL("../../../src/client/", import.meta.url);
const sources = new Map(
  readdirSync(FOLDER, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .map((file) => [file, readFileSync(new URL(file, FOLDER), "utf8")] as const),
);
const INDEX = sources.get("index.ts") ?? "";
const exported = [...INDEX.matchAll(/export (?:type )?\{([^}]*)\} from "\.\/([^"]+)"/gs)].flatMap(
  ([, names = "", file = ""]) =>
    names.split(",").flatMap((name) => {
      const word = name.replace("type ", "").trim();
      return word === "" ? [] : [[word, file] as const];
    }),
);

/** The comment that ends before this index, without its stars; undefined if there is none. */
function commentBefore(source: string, index: number): string | undefined {
  const [, text] = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(source.slice(0, index)) ?? [];
  return text?.replace(/^\s*\* ?/gm, " ").trim();
}

function declarationOf(name: string, file: string): { at: number; body: string; source: string } {
  const source = sources.get(file) ?? "";
  const found = new RegExp(`^export (?:async )?(?:class|interface|type|function) ${name}\\b`, "m").exec(source);
  if (!found) throw new Error(`${file} does not declare ${name}`);
  const rest = source.slice(found.index);
  const isBlock = /^export (?:class|interface)/.test(rest);
  return { at: found.index, body: isBlock ? (/^.*?^\}/ms.exec(rest)?.[0] ?? "") : "", source };
}

/** Members of a class or interface, each with its comment; of an overloaded one only the first. */
function membersIn(body: string): { member: string; isPromise: boolean; comment: string | undefined }[] {
  const seen = new Set<string>();
  return [...body.matchAll(/^ {2}(?:override )?(?:readonly |get |async )*(\[?[A-Za-z][\w.]*\]?)[?<(:]/gm)].flatMap(
    ({ index, 1: member = "" }) => {
      const comment = commentBefore(body, index);
      const isHidden = ["constructor", "name"].includes(member) && !comment;
      if (seen.has(member) || isHidden || comment?.includes("@internal")) return [];
      seen.add(member);
      const [signature = ""] = /^.*?[{;]$/ms.exec(body.slice(index)) ?? [];
      return [{ member, isPromise: signature.includes("): Promise<"), comment }];
    },
  );
}

describe.each(exported)("%s", (name, file) => {
  const { at, body, source } = declarationOf(name, file);

  it("says what it is", () => {
    expect(commentBefore(source, at)).toMatch(/\S/);
  });

  const members = membersIn(body);
  if (members.length > 0)
    it.each(members)("$member says what it is, and a promise how it ends", ({ comment, isPromise }) => {
      expect(comment).toMatch(/\S/);
      if (isPromise) expect(comment).toMatch(/resolves|settles|rejects|^As `/i);
    });
});

it("all of them are looked at", () => {
  expect(exported.length).toBeGreaterThan(30);
  const { body } = declarationOf("Locks", "locks.ts");
  const promises = membersIn(body).filter(({ isPromise }) => isPromise);
  expect(promises.map(({ member }) => member)).toEqual(
    expect.arrayContaining(["ready", "request", "acquire", "tryAcquire", "enqueue", "query", "stats", "close"]),
  );
  expect(membersIn("class X {\n  plain(options = {}): Promise<void> {\n  }\n}")).toEqual([
    { member: "plain", isPromise: true, comment: undefined },
  ]);
});
