import type { Frame } from "../../protocols/wire/frames.ts";

/** Bytes of complete requests that may queue behind one that waits. */
const MAX_BEHIND_WAIT = 65_536;
/**
 * The same behind one that is merely being executed; larger than a carrier's window, so that only a flood exceeds it.
 */
const MAX_BYTES = 262_144;
const WEIGHT_OF_TURN = 192;

/** What is answered in order: a request, or the failure after which nothing more is read. */
export type Turn =
  | { readonly type: "frame"; readonly frame: Frame }
  | { readonly type: "failure"; readonly code: number };

/** Untagged requests that a client has sent ahead of their answers. */
export class Backlog {
  #turns: Turn[];
  #bytes = 0;

  constructor(turns: readonly Turn[]) {
    this.#turns = [...turns];
    for (const turn of turns) this.#bytes += sizeOf(turn);
  }

  /** All turns, copied so that they do not keep the received message alive. */
  get turns(): readonly Turn[] {
    return this.#turns.map(compact);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Approximate stored size, which for small requests is mostly overhead. */
  get weight(): number {
    return this.#bytes + this.#turns.length * WEIGHT_OF_TURN;
  }

  get isEmpty(): boolean {
    return this.#turns.length === 0;
  }

  isTooLong({ isBlocked }: { isBlocked: boolean }): boolean {
    return this.#bytes > (isBlocked ? MAX_BEHIND_WAIT : MAX_BYTES);
  }

  push(turn: Turn): void {
    this.#turns.push(turn);
    this.#bytes += sizeOf(turn);
  }

  next(): Turn | undefined {
    const turn = this.#turns.shift();
    if (turn) this.#bytes -= sizeOf(turn);
    return turn;
  }

  clear(): void {
    this.#turns = [];
    this.#bytes = 0;
  }
}

function compact(turn: Turn): Turn {
  if (turn.type !== "frame") return turn;
  const { command, key, arg, size } = turn.frame;
  return { type: "frame", frame: { command: command.slice(), key: key.slice(), arg: arg.slice(), size } };
}

function sizeOf(turn: Turn): number {
  return turn.type === "frame" ? turn.frame.size : 0;
}
