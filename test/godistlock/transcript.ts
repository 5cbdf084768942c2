/** Conversations as written down: see `test/transcripts/godistlock/`. Anything that is not understood is refused. */
import { readFileSync } from "node:fs";

export type Step =
  | { readonly do: "send"; readonly who: string; readonly text: string; readonly isRaw: boolean }
  | { readonly do: "expect"; readonly who: string; readonly pattern: string; readonly withinMs: number }
  | { readonly do: "expectAny"; readonly who: string; readonly pattern: string }
  | { readonly do: "expectNothing"; readonly who: string; readonly ms: number }
  | { readonly do: "expectClosed" | "close" | "endInput"; readonly who: string }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "compare"; readonly left: string; readonly sign: string; readonly right: string };

export type Use =
  | { readonly kind: "dflockd" }
  | { readonly kind: "relay"; readonly id: string | undefined; readonly version: string }
  | { readonly kind: "listen"; readonly id: string; readonly version: string };

export interface Transcript {
  readonly id: string;
  readonly title: string;
  readonly variables: Readonly<Record<string, string>>;
  /** Ids of the other deployments. */
  readonly peers: readonly string[];
  readonly uses: ReadonlyMap<string, Use>;
  readonly steps: readonly Step[];
}

const DEFAULT_WITHIN_MS = 5_000;

export function readTranscripts(name: string): Transcript[] {
  const text = readFileSync(new URL(`../transcripts/godistlock/${name}.transcript`, import.meta.url), "utf8");
  return text
    .split(/^== /m)
    .filter((part) => part.trim() !== "")
    .map(parseOne);
}

function parseOne(text: string): Transcript {
  const [head = "", ...lines] = text.split("\n");
  const [, id = "", title = ""] = /^(\w+) (.+)$/.exec(head) ?? [];
  const variables: Record<string, string> = {};
  const uses = new Map<string, Use>();
  const steps: Step[] = [];
  let peers: string[] = [];
  for (const line of lines.filter((each) => each !== "")) {
    const setting = /^(config|group|use) (.+)$/.exec(line);
    if (setting?.[1] === "config") {
      for (const pair of (setting[2] ?? "").split(" ")) variables[pair.split("=")[0] ?? ""] = pair.split("=")[1] ?? "";
    } else if (setting?.[1] === "group") peers = (setting[2] ?? "").split(",");
    else if (setting) {
      const [who = "", kind, named, version = ""] = (setting[2] ?? "").split(" ");
      if (kind === "dflockd") uses.set(who, { kind });
      else if (kind === "relay") uses.set(who, { kind, id: named === "-" ? undefined : named, version });
      else if (kind === "listen" && named) uses.set(who, { kind, id: named, version });
      else throw new Error(`${id}: ${line}`);
    } else steps.push(stepOf(id, line));
  }
  return { id, title, variables, peers, uses, steps };
}

function stepOf(id: string, line: string): Step {
  const sleep = /^sleep ([0-9.]+)$/.exec(line);
  if (sleep) return { do: "sleep", ms: Number(sleep[1]) * 1000 };
  const compare = /^expect (\S+) (>|<|==|!=) (\S+)$/.exec(line);
  if (compare) return { do: "compare", left: compare[1] ?? "", sign: compare[2] ?? "", right: compare[3] ?? "" };
  const [, who = "", rest = ""] = /^([A-Z])(.+)$/.exec(line) ?? [];
  if (rest === " close") return { do: "close", who };
  if (rest === " halfclose") return { do: "endInput", who };
  if (rest === "<closed") return { do: "expectClosed", who };
  const none = /^<none ([0-9.]+)$/.exec(rest);
  if (none) return { do: "expectNothing", who, ms: Number(none[1]) * 1000 };
  if (rest.startsWith(">> ")) return { do: "send", who, text: JSON.parse(rest.slice(3)) as string, isRaw: true };
  if (rest.startsWith("> ")) return { do: "send", who, text: rest.slice(2), isRaw: false };
  if (rest.startsWith("<* ")) return { do: "expectAny", who, pattern: rest.slice(3) };
  const expected = /^<(?:\[([0-9.]+)\])? (.*)$/.exec(rest);
  if (!expected) throw new Error(`${id}: ${line}`);
  const withinMs = expected[1] ? Number(expected[1]) * 1000 : DEFAULT_WITHIN_MS;
  return { do: "expect", who, pattern: expected[2] ?? "", withinMs };
}
