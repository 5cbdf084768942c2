/** The head of a response; names and values of all headers alternate, as they came. */
export interface ResponseHead {
  readonly statusCode: number;
  readonly statusMessage: string;
  readonly rawHeaders: readonly string[];
  /** Those that concern the connection and the body, by name in lower case. */
  readonly headers: Readonly<Partial<Record<OfConnection, string>>>;
}

export interface ResponseEvents {
  head(head: ResponseHead): void;
  body(bytes: Buffer): void;
  /** The response is complete. */
  end(): void;
}

const OF_CONNECTION = ["connection", "upgrade", "content-length", "transfer-encoding"] as const;
type OfConnection = (typeof OF_CONNECTION)[number];

type State = "head" | "length" | "size" | "chunk" | "chunk_end" | "trailers" | "until_close" | "over";

const LINE_END = "\r\n";
const HEAD_END = "\r\n\r\n";
const STATUS_LINE = /^HTTP\/1\.1 ([0-9]{3})(?: (.*))?$/;
const MAX_HEAD_BYTES = 262_144;
/** Of the size of a chunk, or a trailer. */
const MAX_LINE_BYTES = 4_096;
const NOTHING = Buffer.alloc(0);

/** Parses one response of workerd. Node's own client does far more than that, at twice the cost of everything else. */
export class ResponseParser {
  readonly #method: string | undefined;
  readonly #events: ResponseEvents;
  #state: State = "head";
  /** Bytes of the body, or of its current chunk, that have yet to come. */
  #left = 0;
  #unparsed: Buffer = NOTHING;

  constructor(method: string | undefined, events: ResponseEvents) {
    this.#method = method;
    this.#events = events;
  }

  /** Throws if the bytes are no response, or more than one. */
  take(bytes: Buffer): void {
    let rest = this.#unparsed.length > 0 ? Buffer.concat([this.#unparsed, bytes]) : bytes;
    while (rest.length > 0) {
      const taken = this.#step(rest);
      if (taken === 0) break;
      rest = rest.subarray(taken);
    }
    this.#unparsed = rest;
  }

  /** The connection has ended. False if that was too early. */
  close(): boolean {
    if (this.#state === "until_close") this.#end();
    return this.#state === "over";
  }

  /** Returns the number of bytes taken; 0 if more are needed. */
  #step(bytes: Buffer): number {
    switch (this.#state) {
      case "head":
        return this.#takeHead(bytes);
      case "length":
        return this.#takeBody(bytes, () => this.#end());
      case "size":
        return this.#takeLine(bytes, (line) => this.#chunkOf(line));
      case "chunk":
        return this.#takeBody(bytes, () => {
          this.#state = "chunk_end";
        });
      case "chunk_end":
        return this.#takeLine(bytes, (line) => {
          if (line !== "") throw new Error("a chunk is longer than announced");
          this.#state = "size";
        });
      case "trailers":
        return this.#takeLine(bytes, (line) => {
          if (line === "") this.#end();
        });
      case "until_close":
        this.#events.body(bytes);
        return bytes.length;
      case "over":
        throw new Error("more bytes than the response has");
    }
  }

  #takeHead(bytes: Buffer): number {
    const length = bytes.indexOf(HEAD_END);
    if (length < 0 && bytes.length <= MAX_HEAD_BYTES) return 0;
    const head = length < 0 ? undefined : parseHead(bytes.toString("latin1", 0, length));
    if (!head) throw new Error("not the head of a response");
    // An interim response: the real one follows.
    if (head.statusCode >= 200) this.#begin(head);
    return length + HEAD_END.length;
  }

  #begin(head: ResponseHead): void {
    const { "content-length": length, "transfer-encoding": encoding } = head.headers;
    const hasNoBody = this.#method === "HEAD" || head.statusCode === 204 || head.statusCode === 304;
    this.#left = Number(length ?? 0);
    if (!hasNoBody && encoding !== undefined) this.#state = "size";
    else if (!hasNoBody && length === undefined) this.#state = "until_close";
    else this.#state = "length";
    this.#events.head(head);
    if (this.#state === "length" && (hasNoBody || this.#left === 0)) this.#end();
  }

  #takeBody(bytes: Buffer, whole: () => void): number {
    const piece = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes;
    this.#left -= piece.length;
    this.#events.body(piece);
    if (this.#left === 0) whole();
    return piece.length;
  }

  #takeLine(bytes: Buffer, take: (line: string) => void): number {
    const length = bytes.indexOf(LINE_END);
    if (length > MAX_LINE_BYTES || (length < 0 && bytes.length > MAX_LINE_BYTES)) throw new Error("a line is too long");
    if (length < 0) return 0;
    take(bytes.toString("latin1", 0, length));
    return length + LINE_END.length;
  }

  #chunkOf(line: string): void {
    const [, size] = /^([0-9a-f]{1,12})[ \t]*(?:;.*)?$/i.exec(line) ?? [];
    if (size === undefined) throw new Error("not the size of a chunk");
    this.#left = Number.parseInt(size, 16);
    this.#state = this.#left === 0 ? "trailers" : "chunk";
  }

  #end(): void {
    this.#state = "over";
    this.#events.end();
  }
}

function parseHead(text: string): ResponseHead | undefined {
  const [first = "", ...lines] = text.split(LINE_END);
  const [, code, statusMessage = ""] = STATUS_LINE.exec(first) ?? [];
  if (code === undefined) return undefined;
  const rawHeaders: string[] = [];
  const headers: Partial<Record<OfConnection, string>> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon <= 0) return undefined;
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    rawHeaders.push(name, value);
    const lower = name.toLowerCase();
    const known = OF_CONNECTION.find((each) => each === lower);
    if (known) headers[known] = value;
  }
  return isFramingValid(headers) ? { statusCode: Number(code), statusMessage, rawHeaders, headers } : undefined;
}

function isFramingValid(headers: ResponseHead["headers"]): boolean {
  const { "content-length": length = "0", "transfer-encoding": encoding = "chunked" } = headers;
  return /^[0-9]{1,15}$/.test(length) && /^chunked$/i.test(encoding);
}
