import type { Frame } from "./frames.ts";

/** Losses that a client may ask to be told of. */
export type Watched = "lost" | "taken";

/** A request of the wire protocol. Seconds are whole. `limit` is 1 for locks; an absent lease is undefined. */
export type Request =
  | {
      readonly type: "acquire";
      readonly key: string;
      readonly limit: number;
      readonly waitSeconds: number;
      readonly leaseSeconds: number | undefined;
      readonly steals?: true;
      /** The holder wants to be told when another client wants the key. */
      readonly asksWanted?: true;
    }
  | {
      readonly type: "enqueue";
      readonly key: string;
      readonly limit: number;
      readonly leaseSeconds: number | undefined;
    }
  | { readonly type: "wait"; readonly key: string; readonly waitSeconds: number }
  | { readonly type: "release"; readonly key: string; readonly token: string }
  | { readonly type: "renew"; readonly key: string; readonly token: string; readonly leaseSeconds: number | undefined }
  | { readonly type: "ping" }
  | { readonly type: "stats" }
  /** `taken`: holds that others end. `lost`: also those whose lease ends. */
  | { readonly type: "watch"; readonly what: Watched }
  | { readonly type: "resume" }
  | { readonly type: "cancel"; readonly tag: string }
  | { readonly type: "query"; readonly key: string }
  | { readonly type: "auth"; readonly token: Uint8Array };

/** Codes of the protocol's parse errors; for logs and metrics, never sent on the wire. */
export type ParseErrorCode = 3 | 4 | 5 | 6 | 7 | 8 | 9 | 13;

export type Parsed =
  | { readonly ok: true; readonly request: Request }
  | { readonly ok: false; readonly code: ParseErrorCode };

export interface TaggedCommand {
  readonly tag: string | undefined;
  readonly command: string;
}

const MAX_SECONDS = 9_223_372_036;
const MAX_LIMIT = 1_048_576;
const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);

/** Asks to be told when another client wants the key. */
const WANTED = "wanted";

class ParseError extends Error {
  readonly code: ParseErrorCode;
  constructor(code: ParseErrorCode) {
    super(`protocol error ${code}`);
    this.code = code;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes as characters with the same code: exact for ASCII, and harmless for anything else. */
function latin1(bytes: Uint8Array): string {
  return Reflect.apply(String.fromCharCode, undefined, bytes);
}

/** Splits the tag off the command line; undefined if it begins like a tag but is not one. */
export function splitTag(line: Uint8Array): TaggedCommand | undefined {
  const text = latin1(line);
  if (!text.startsWith("@")) return { tag: undefined, command: text };
  const match = /^@([A-Za-z0-9_-]{1,32}) (.*)$/s.exec(text);
  return match ? { tag: match[1], command: match[2] as string } : undefined;
}

const OF_SEMAPHORES = new Set(["sl", "se", "sw", "sr", "sn"]);

/** Whether a command on a key treats it as a lock or as a semaphore. */
export function familyOf(command: string): "lock" | "semaphore" {
  return OF_SEMAPHORES.has(command) ? "semaphore" : "lock";
}

/** Parses a frame whose tag has been split off. */
export function parseRequest(command: string, frame: Frame): Parsed {
  try {
    return { ok: true, request: requestOf(command, frame) };
  } catch (error) {
    if (error instanceof ParseError) return { ok: false, code: error.code };
    throw error;
  }
}

function requestOf(command: string, frame: Frame): Request {
  switch (command) {
    case "l":
    case "sl":
      return withWanted(frame, (words) => acquireOf(command === "sl", keyOf(frame), words));
    case "e":
    case "se":
      return enqueueOf(command === "se", keyOf(frame), wordsOf(frame));
    case "w":
    case "sw":
      return { type: "wait", key: keyOf(frame), waitSeconds: timeoutOf(trimmed(frame.arg)) };
    case "r":
    case "sr":
      return { type: "release", key: keyOf(frame), token: tokenOf(trimmed(frame.arg)) };
    case "n":
    case "sn":
      return renewOf(keyOf(frame), wordsOf(frame));
    case "ping":
    case "stats":
      return { type: command };
    case "watch":
      return watchOf(trimmed(frame.arg));
    case "session":
      if (trimmed(frame.arg) !== "resume") throw new ParseError(8);
      return { type: "resume" };
    case "cancel":
      return { type: "cancel", tag: trimmed(frame.arg) };
    case "query":
      return { type: "query", key: keyOf(frame) };
    case "steal":
      return withWanted(frame, (words) => stealOf(keyOf(frame), words));
    case "auth":
      return { type: "auth", token: trimmedBytes(frame.arg) };
    default:
      throw new ParseError(3);
  }
}

function watchOf(what: string): Request {
  if (what !== "lost" && what !== "taken") throw new ParseError(8);
  return { type: "watch", what };
}

/** A claim whose last word may be `wanted`. */
function withWanted(frame: Frame, requestFrom: (words: string[]) => Request): Request {
  const words = wordsOf(frame);
  if (words.at(-1) !== WANTED) return requestFrom(words);
  return { ...requestFrom(words.slice(0, -1)), asksWanted: true } as Request;
}

function acquireOf(isSemaphore: boolean, key: string, words: string[]): Request {
  const [timeout, ...others] = words;
  if (timeout === undefined) throw new ParseError(8);
  const expected = isSemaphore ? 2 : 1;
  if (words.length < expected || words.length > expected + 1) throw new ParseError(8);
  const waitSeconds = timeoutOf(timeout);
  const limit = isSemaphore ? limitOf(others.shift()) : 1;
  return { type: "acquire", key, limit, waitSeconds, leaseSeconds: leaseOf(others[0]) };
}

function stealOf(key: string, words: string[]): Request {
  const [limit, lease] = words;
  if (limit === undefined || words.length > 2) throw new ParseError(8);
  return { type: "acquire", key, limit: limitOf(limit), waitSeconds: 0, leaseSeconds: leaseOf(lease), steals: true };
}

function enqueueOf(isSemaphore: boolean, key: string, words: string[]): Request {
  const expected = isSemaphore ? 1 : 0;
  if (words.length < expected || words.length > expected + 1) throw new ParseError(8);
  const rest = [...words];
  const limit = isSemaphore ? limitOf(rest.shift()) : 1;
  return { type: "enqueue", key, limit, leaseSeconds: leaseOf(rest[0]) };
}

function renewOf(key: string, words: string[]): Request {
  const [token, lease] = words;
  if (token === undefined) throw new ParseError(7);
  if (words.length > 2) throw new ParseError(8);
  return { type: "renew", key, token, leaseSeconds: leaseOf(lease) };
}

function keyOf({ key }: Frame): string {
  if (key.length === 0) throw new ParseError(5);
  let isAscii = true;
  for (const byte of key) {
    if (byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a) throw new ParseError(5);
    if (byte > 0x7f) isAscii = false;
  }
  if (isAscii) return latin1(key);
  try {
    return utf8.decode(key);
  } catch {
    throw new ParseError(5);
  }
}

function tokenOf(text: string): string {
  if (text === "") throw new ParseError(7);
  return text;
}

/** Exact up to 2^53, and beyond that only as large as it has to be. Refuses what does not fit into 64 bits. */
function integerOf(text: string): number {
  if (!/^[+-]?[0-9]+$/.test(text)) throw new ParseError(4);
  // Without this, "-0" would be a zero unlike others.
  const value = Number(text) + 0;
  if (Number.isSafeInteger(value)) return value;
  const whole = BigInt(text.startsWith("+") ? text.slice(1) : text);
  if (whole > MAX_INT64 || whole < MIN_INT64) throw new ParseError(4);
  return value;
}

function within(text: string, min: number, max: number, code: ParseErrorCode): number {
  const value = integerOf(text);
  if (value < min || value > max) throw new ParseError(code);
  return value;
}

const timeoutOf = (text: string) => within(text, 0, MAX_SECONDS, 6);
const limitOf = (text = "") => within(text, 1, MAX_LIMIT, 13);
const leaseOf = (text: string | undefined) => (text === undefined ? undefined : within(text, 1, MAX_SECONDS, 9));

const isBlank = (byte: number | undefined) =>
  byte === 0x20 || byte === 0x09 || byte === 0x0b || byte === 0x0c || byte === 0x0d;

function trimmedBytes(bytes: Uint8Array): Uint8Array {
  let start = 0;
  let end = bytes.length;
  while (start < end && isBlank(bytes[start])) start += 1;
  while (end > start && isBlank(bytes[end - 1])) end -= 1;
  return bytes.subarray(start, end);
}

function trimmed(bytes: Uint8Array): string {
  return latin1(trimmedBytes(bytes));
}

function wordsOf({ arg }: Frame): string[] {
  const text = trimmed(arg);
  return text === "" ? [] : text.split(/[ \t\v\f\r]+/);
}
