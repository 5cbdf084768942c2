import { type ErrorWord, type LineFault, NO_NONCE, type Parsed } from "./errors.ts";

const MAX_FIELD_BYTES = 256;
const MAX_TOKEN_BYTES = 65_536;
const MAX_TIMEOUT_MS = 9_223_372_036_000;
const MAX_FENCE = 2n ** 64n - 1n;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** Thrown inside the parsers only. */
class FaultError extends Error {
  readonly fault: LineFault;

  constructor(fault: LineFault) {
    super(fault.word);
    this.fault = fault;
  }
}

/** The fields of one line. `read` gives each of them its meaning; the first that breaks its rule decides the error. */
export class Fields {
  readonly keyword: string;
  readonly #fields: readonly string[];
  #nonce = NO_NONCE;

  constructor(line: Uint8Array) {
    const [keyword = "", ...fields] = textOf(line).split(" ");
    this.keyword = keyword;
    this.#fields = fields;
  }

  get count(): number {
    return this.#fields.length;
  }

  /** Checks what all lines have in common, and reads the nonce at this place. */
  expect(counts: readonly number[], nonceAt: number): this {
    if (!counts.includes(this.#fields.length)) throw this.fault("invalid-message");
    if (this.#fields.includes("")) throw this.fault("invalid-message");
    this.#nonce = this.word(nonceAt);
    return this;
  }

  get nonce(): string {
    return this.#nonce;
  }

  /** A field that is passed on as it is. */
  word(at: number): string {
    const word = this.#at(at);
    if (byteLength(word) > MAX_FIELD_BYTES) throw this.fault("invalid-message");
    return word;
  }

  token(at: number): string {
    const token = this.#at(at);
    if (byteLength(token) > MAX_TOKEN_BYTES) throw this.fault("invalid-message");
    return token;
  }

  lock(at: number): string {
    const lock = this.#at(at);
    if (byteLength(lock) > MAX_FIELD_BYTES || /[\t\r]/.test(lock)) throw this.fault("invalid-lock");
    return lock;
  }

  fence(at: number): bigint {
    const text = this.#at(at);
    const fence = /^[0-9]{1,20}$/.test(text) ? BigInt(text) : undefined;
    if (fence === undefined || fence > MAX_FENCE) throw this.fault("invalid-fence");
    return fence;
  }

  /** Milliseconds. */
  timeout(at: number): number {
    const text = this.#at(at);
    const ms = /^[0-9]{1,16}$/.test(text) ? Number(text) : 0;
    if (ms < 1 || ms > MAX_TIMEOUT_MS) throw this.fault("invalid-timeout");
    return ms;
  }

  /** A status of the relay protocol. */
  status(at: number): number {
    const text = this.#at(at);
    if (!/^[0-9]{1,3}$/.test(text)) throw this.fault("invalid-message");
    return Number(text);
  }

  /** Everything from this field on, spaces included. */
  rest(at: number): string {
    return this.#fields.slice(at).join(" ");
  }

  fault(word: ErrorWord): FaultError {
    const hasNonce = word !== "invalid-keyword" && word !== "invalid-message";
    return new FaultError({ word, nonce: hasNonce ? this.#nonce : NO_NONCE });
  }

  #at(at: number): string {
    return this.#fields[at] ?? "";
  }
}

/** Parses one line, turning the first broken rule into a fault. */
export function parseLine<Message>(line: Uint8Array, read: (fields: Fields) => Message): Parsed<Message> {
  try {
    return { ok: true, message: read(new Fields(line)) };
  } catch (error) {
    if (error instanceof FaultError) return { ok: false, fault: error.fault };
    throw error;
  }
}

function textOf(line: Uint8Array): string {
  try {
    return utf8.decode(line);
  } catch {
    throw new FaultError({ word: "invalid-message", nonce: NO_NONCE });
  }
}

function byteLength(text: string): number {
  return encoder.encode(text).length;
}
