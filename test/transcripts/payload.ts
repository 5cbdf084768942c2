/**
 * The payload of a transcript line: bytes with placeholders. Bytes are kept as latin1 text (one character per byte), so
 * that received lines can be matched with a regular expression whatever they hold.
 */
export type Part =
  | { readonly kind: "bytes"; readonly latin1: string }
  | { readonly kind: "token"; readonly name: string }
  | { readonly kind: "int" }
  | { readonly kind: "num" };
export type Payload = readonly Part[];

const PIECE =
  /\\(?:(?<short>[nrt\\])|x(?<hex>[0-9a-f]{2}))|\{token:(?<token>[a-z]+)\}|\{(?<pattern>int|num)\}|\{rep:(?<text>(?:\\[nrt\\]|[^\\{},])+),(?<times>[1-9][0-9]*)\}|\{(?=")|(?<plain>[^\\{])/uy;
const SHORT_ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t", "\\": "\\" };

export function parsePayload(source: string): Payload {
  const parts: Part[] = [];
  let bytes = "";
  const flush = () => {
    if (bytes !== "") parts.push({ kind: "bytes", latin1: bytes });
    bytes = "";
  };
  PIECE.lastIndex = 0;
  while (PIECE.lastIndex < source.length) {
    const from = PIECE.lastIndex;
    const match = PIECE.exec(source);
    if (!match?.groups)
      throw new Error(`unknown escape or placeholder at ${JSON.stringify(source.slice(from, from + 20))}`);
    const { short, hex, token, pattern, text, times, plain } = match.groups;
    if (short !== undefined) bytes += SHORT_ESCAPES[short];
    else if (hex !== undefined) bytes += String.fromCharCode(Number.parseInt(hex, 16));
    else if (text !== undefined) bytes += latin1Of(text).repeat(Number(times));
    else if (plain !== undefined) bytes += plainBytes(plain);
    else if (token !== undefined) {
      flush();
      parts.push({ kind: "token", name: token });
    } else if (pattern !== undefined) {
      flush();
      parts.push({ kind: pattern as "int" | "num" });
    } else bytes += "{";
  }
  flush();
  return parts;
}

/** The bytes to send; every token must be bound. */
export function encodePayload(payload: Payload, tokens: ReadonlyMap<string, string>): Uint8Array {
  const text = payload.map((part) => {
    if (part.kind === "bytes") return part.latin1;
    if (part.kind === "token" && tokens.has(part.name)) return tokens.get(part.name);
    throw new Error(`a ${part.kind} without a value cannot be sent`);
  });
  return Uint8Array.from(text.join(""), (character) => character.charCodeAt(0));
}

/** Tokens newly bound by `line` (latin1) if it matches the payload, otherwise undefined. */
export function matchPayload(
  payload: Payload,
  line: string,
  tokens: ReadonlyMap<string, string>,
): Record<string, string> | undefined {
  const named = new Set<string>();
  const patternOf = (part: Part): string => {
    switch (part.kind) {
      case "bytes":
        return part.latin1.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
      case "int":
        return "[0-9]+";
      case "num":
        return "(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][+-]?[0-9]+)?";
      case "token": {
        const bound = tokens.get(part.name);
        if (bound !== undefined) return bound;
        if (named.has(part.name)) return `\\k<${part.name}>`;
        named.add(part.name);
        return `(?<${part.name}>[0-9a-f]{32})`;
      }
    }
  };
  const match = new RegExp(`^${payload.map(patternOf).join("")}$`, "s").exec(line);
  return match ? { ...match.groups } : undefined;
}

function latin1Of(text: string): string {
  return text.replace(/\\([nrt\\])/g, (_, letter: string) => SHORT_ESCAPES[letter] as string);
}

function plainBytes(character: string): string {
  if (character < " " || character === "\x7f") throw new Error("control characters are written as escapes");
  return String.fromCharCode(...new TextEncoder().encode(character));
}
