import type { z } from "@hono/zod-openapi";
import { type Parsed, parseFields } from "./fields.ts";

export const MOST_BODY_BYTES = 1_048_576;
/** The longest time a timer can be set for; later deadlines are as good as none for a request. */
const MOST_TIMER_MS = 2 ** 31 - 1;
const SHORT_BODY_BYTES = 16_384;
const LONGEST_NAME_SHOWN = 64;

export type ReadBody =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | { readonly ok: false; readonly detail: string };

/**
 * Of a body that is too long, so much is read and thrown away: a sender that is cut off while it still sends would see
 * a broken connection, and not the reply that tells why.
 */
const MOST_DISCARDED_BYTES = 16 * 1_048_576;

/**
 * Reads a request's body whole, or says why not: it is longer than `mostBytes`, or not complete `deadlineMs`
 * milliseconds from now.
 */
export async function readBody(
  request: Request,
  { mostBytes, deadlineMs }: { readonly mostBytes: number; readonly deadlineMs: number },
): Promise<ReadBody> {
  const stream = request.body;
  if (stream === null) return { ok: true, bytes: new Uint8Array() };
  const tooLong: ReadBody = { ok: false, detail: `body must be at most ${mostBytes} bytes` };
  const late: ReadBody = { ok: false, detail: "body was not complete in time" };
  if (Number(request.headers.get("Content-Length")) > MOST_DISCARDED_BYTES) {
    drop(stream);
    return tooLong;
  }
  const deadline = Promise.withResolvers<"late">();
  const timer = setTimeout(() => deadline.resolve("late"), Math.min(deadlineMs, MOST_TIMER_MS));
  try {
    if (isShort(request)) {
      const whole = await Promise.race([request.arrayBuffer(), deadline.promise]);
      return whole === "late" ? late : { ok: true, bytes: new Uint8Array(whole) };
    }
    const reader: ReadableStreamDefaultReader<Uint8Array> = stream.getReader();
    const chunks: Uint8Array[] = [];
    for (let length = 0; ; ) {
      const next = await Promise.race([reader.read(), deadline.promise]);
      if (next === "late") {
        drop(reader);
        return late;
      }
      if (next.done) return length > mostBytes ? tooLong : { ok: true, bytes: joined(chunks, length) };
      length += next.value.byteLength;
      if (length <= mostBytes) chunks.push(next.value);
      if (length > MOST_DISCARDED_BYTES) {
        drop(reader);
        return tooLong;
      }
    }
  } catch {
    // The sender broke off; whatever is answered, nobody reads it.
    return { ok: false, detail: "body could not be read" };
  } finally {
    clearTimeout(timer);
  }
}

/** Whether the body is sure to be short: it can be read in one step then, at half the cost. */
function isShort(request: Request): boolean {
  const length = request.headers.get("Content-Length");
  return length !== null && Number(length) <= SHORT_BODY_BYTES;
}

/** Lets go of a stream without waiting for the other side to notice. */
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
 * A body as the fields it must have: one JSON object in UTF-8, every name known, every value within its rule. `null`
 * counts as absent, as a field and as the body. `detail` names the field or rule and never shows a value.
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
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.startsWith("\uFEFF") ? undefined : text;
  } catch {
    return undefined;
  }
}

/** The parsed text, or undefined when it is no JSON or too deeply nested to be any of ours. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, wholeNumbersOnly as (name: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/**
 * Turns every number that is not written as a whole one into NaN, which no field takes: `1.0` and `1e3` have whole
 * values, so only their text tells. Numbers beyond the exact ones stay beyond every range.
 */
function wholeNumbersOnly(_name: string, value: unknown, { source }: { readonly source?: string }): unknown {
  if (typeof value !== "number") return value;
  return source !== undefined && /^-?[0-9]+$/.test(source) ? value + 0 : Number.NaN;
}

/** A name in quotes, cut short: what a client sends is not worth a long reply. */
function shown(name: string): string {
  const letters = [...name];
  return JSON.stringify(
    letters.length > LONGEST_NAME_SHOWN ? `${letters.slice(0, LONGEST_NAME_SHOWN).join("")}…` : name,
  );
}
