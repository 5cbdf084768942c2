import type { Frame } from "../../protocols/wire/frames.ts";

/** Bytes of complete requests that may queue behind one that waits. */
const MAX_BEHIND_WAIT = 65_536;
/**
 * The same behind one that is merely being executed; larger than a carrier's window, so that only a flood exceeds it.
 */
const MAX_BYTES = 262_144;
const WEIGHT_OF_ENTRY = 192;

/** What is answered in order: a request, or the failure after which nothing more is read. */
export type BacklogEntry =
  | { readonly type: "frame"; readonly frame: Frame }
  | { readonly type: "failure"; readonly code: number };

/** Untagged requests that a client has sent ahead of their answers. */
export class Backlog {
  #entries: BacklogEntry[];
  #bytes = 0;

  constructor(entries: readonly BacklogEntry[]) {
    this.#entries = [...entries];
    for (const entry of entries) this.#bytes += sizeOf(entry);
  }

  /** All entries, copied so that they do not keep the received message alive. */
  get entries(): readonly BacklogEntry[] {
    return this.#entries.map(compact);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Approximate stored size, which for small requests is mostly overhead. */
  get weight(): number {
    return this.#bytes + this.#entries.length * WEIGHT_OF_ENTRY;
  }

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  isTooLong({ isBlocked }: { isBlocked: boolean }): boolean {
    return this.#bytes > (isBlocked ? MAX_BEHIND_WAIT : MAX_BYTES);
  }

  push(entry: BacklogEntry): void {
    this.#entries.push(entry);
    this.#bytes += sizeOf(entry);
  }

  next(): BacklogEntry | undefined {
    const entry = this.#entries.shift();
    if (entry) this.#bytes -= sizeOf(entry);
    return entry;
  }

  clear(): void {
    this.#entries = [];
    this.#bytes = 0;
  }
}

function compact(entry: BacklogEntry): BacklogEntry {
  if (entry.type !== "frame") return entry;
  const { command, key, arg, size } = entry.frame;
  return { type: "frame", frame: { command: command.slice(), key: key.slice(), arg: arg.slice(), size } };
}

function sizeOf(entry: BacklogEntry): number {
  return entry.type === "frame" ? entry.frame.size : 0;
}
