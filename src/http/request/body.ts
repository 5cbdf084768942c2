import type { z } from "@hono/zod-openapi";
import { type Parsed, parseFields } from "./fields.ts";

export const MAX_BODY_BYTES = 1_048_576;
/** The longest timer the platform supports; a later deadline does not matter to a request. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const SHORT_BODY_BYTES = 16_384;
const LONGEST_NAME_SHOWN = 64;
/** Most bodies arrive with the headers. */
const PATIENCE_MS = 50;
/** `ignoreBOM` keeps a byte-order mark in the text instead of dropping it. */
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export type ReadBody =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly detail: string };

export interface ReadOptions {
  readonly maxBytes: number;
  readonly deadlineMs: number;
  /** Called if the body does not arrive with the headers, as most do. False ends the reading. */
  readonly isWanted?: () => Promise<boolean>;
}

/**
 * How much of a body that is too long is read and discarded: a sender that is cut off while still sending would see a
 * broken connection instead of the reply that tells why.
 */
const MAX_DISCARDED_BYTES = 16 * 1_048_576;
const LATE: ReadBody = { ok: false, detail: "body was not complete in time" };
/** The client is gone, so the detail is never read. */
const BROKEN_OFF: ReadBody = { ok: false, detail: "body could not be read" };
const UNWANTED: ReadBody = { ok: false, detail: "body was not wanted" };

/**
 * Reads a whole request body, or says why it cannot: it is longer than `maxBytes`, or not complete within `deadlineMs`.
 */
export async function readBody(request: Request, options: ReadOptions): Promise<ReadBody> {
  const length = Number(request.headers.get("Content-Length") ?? Number.NaN);
  if (length === 0) return { ok: true, bytes: new Uint8Array() };
  const limit = new TimeLimit(options);
  try {
    // A body known to be short can be read in one step, at half the cost.
    const reading = length <= SHORT_BODY_BYTES ? wholeOf(request) : piecesOf(request, length, options.maxBytes, limit);
    return await Promise.race([reading, limit.over]);
  } finally {
    limit.clear();
  }
}

/** Resolves when a body takes too long or is not wanted. */
class TimeLimit {
  readonly over: Promise<ReadBody>;
  #timer: ReturnType<typeof setTimeout>;

  constructor({ deadlineMs, isWanted }: ReadOptions) {
    const { promise, resolve, reject } = Promise.withResolvers<ReadBody>();
    this.over = promise;
    const atDeadline = () => resolve(LATE);
    const wholeMs = Math.min(deadlineMs, MAX_TIMER_MS);
    if (!isWanted || wholeMs <= PATIENCE_MS) {
      this.#timer = setTimeout(atDeadline, wholeMs);
      return;
    }
    const look = () => {
      this.#timer = setTimeout(atDeadline, wholeMs - PATIENCE_MS);
      isWanted().then((isStill) => isStill || resolve(UNWANTED), reject);
    };
    this.#timer = setTimeout(look, PATIENCE_MS);
  }

  clear(): void {
    clearTimeout(this.#timer);
  }
}

async function wholeOf(request: Request): Promise<ReadBody> {
  try {
    return { ok: true, bytes: new Uint8Array(await request.arrayBuffer()) };
  } catch {
    return BROKEN_OFF;
  }
}

async function piecesOf(request: Request, announced: number, maxBytes: number, limit: TimeLimit): Promise<ReadBody> {
  const stream = request.body;
  if (stream === null) return { ok: true, bytes: new Uint8Array() };
  const tooLong: ReadBody = { ok: false, detail: `body must be at most ${maxBytes} bytes` };
  if (announced > MAX_DISCARDED_BYTES) {
    drop(stream);
    return tooLong;
  }
  const reader: ReadableStreamDefaultReader<Uint8Array> = stream.getReader();
  limit.over.then(
    () => drop(reader),
    () => drop(reader),
  );
  const chunks: Uint8Array[] = [];
  try {
    for (let length = 0; ; ) {
      const next = await reader.read();
      if (next.done) return length > maxBytes ? tooLong : { ok: true, bytes: joined(chunks, length) };
      length += next.value.byteLength;
      if (length <= maxBytes) chunks.push(next.value);
      if (length > MAX_DISCARDED_BYTES) {
        drop(reader);
        return tooLong;
      }
    }
  } catch {
    return BROKEN_OFF;
  }
}

/** Cancels a stream without waiting for the other side. */
function drop(stream: { cancel(): Promise<void> }): void {
  stream.cancel().catch(() => undefined);
}

function joined(chunks: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = chunks;
  if (only && chunks.length === 1) return only;
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return bytes;
}

/**
 * Parses and validates a body: one JSON object in UTF-8, every name known, every value within its rule. `null` counts
 * as absent, as a field and as the body. `detail` names the field or rule and never shows a value.
 */
export function parseBody<Schema extends z.ZodObject>(
  schema: Schema,
  bytes: Uint8Array,
  { mayBeEmpty }: { readonly mayBeEmpty: boolean },
): Parsed<z.output<Schema>> {
  const text = decode(bytes);
  if (text === undefined) return refused("body must be UTF-8 text without byte-order mark");
  const isEmpty = /^[ \t\n\r]*$/.test(text);
  if (isEmpty && !mayBeEmpty) return refused("body is required, at least {}");
  const body = isEmpty ? {} : parseJson(text);
  if (body === undefined) return refused("body must be one valid JSON object");
  if (typeof body !== "object" || Array.isArray(body)) return refused("body must be a JSON object");
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body ?? {})) {
    if (!Object.hasOwn(schema.shape, name)) return refused(`unknown field ${shown(name)}`);
    if (value !== null) fields[name] = value;
  }
  return parseFields(schema, fields);
}

function refused(detail: string): { ok: false; detail: string } {
  return { ok: false, detail };
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    const text = decoder.decode(bytes);
    return text.startsWith("\uFEFF") ? undefined : text;
  } catch {
    return undefined;
  }
}

type Reviver = (name: string, value: unknown) => unknown;

/** The parsed text, or undefined if it is not JSON or too deeply nested. */
function parseJson(text: string): unknown {
  try {
    const mayHaveOthers = /[0-9][.eE]|-0/.test(text);
    return JSON.parse(text, mayHaveOthers ? (wholeNumbersOnly as Reviver) : undefined);
  } catch {
    return undefined;
  }
}

/**
 * Turns every number not written as a whole one into NaN, which no field accepts: `1.0` and `1e3` have whole values, so
 * only their text tells. Numbers beyond the safe integers stay out of every range.
 */
function wholeNumbersOnly(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number") return value;
  return source !== undefined && /^-?[0-9]+$/.test(source) ? value + 0 : Number.NaN;
}

/** A name in quotes, truncated to keep the reply short. */
function shown(name: string): string {
  const letters = [...name];
  return JSON.stringify(
    letters.length > LONGEST_NAME_SHOWN ? `${letters.slice(0, LONGEST_NAME_SHOWN).join("")}…` : name,
  );
}
