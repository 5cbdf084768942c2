import { VANISHED } from "../core/session/socket-session.ts";
import type { Batch } from "./batch.ts";
import type { Connection } from "./clients.ts";

/** Input of one connection that is processed in one batch, so that a flood on one does not hold up the others. */
const MAX_PER_BATCH = 4_096;
const MIN_PER_BATCH = 256;
/** Input of all connections that wait, when each has had its turn: about a tenth of a second of work. */
const MAX_PER_ROUND = 262_144;
/** Input that waits for its turn. Beyond this, nothing more is read. */
const MAX_WAITING = 65_536;
/** A message costs as much as this many bytes, however short it is: each is a command of its own. */
const MIN_COST = 64;
/** Short pieces that wait are joined, up to this size: each would keep the buffer it was read into. */
const JOINED_BYTES = 4_096;

/** What becomes of the input of one connection. All but `pause` and `resume` are called in a batch. */
export interface InputEvents {
  /** Whether the connection still counts: what comes from one that does not is dropped. */
  isCurrent(): boolean;
  /** Whether so much is being carried out that more input has to wait. */
  isBehind(): boolean;
  pause(): void;
  resume(): void;
  /** Processes a piece of input; an empty one is its end. */
  take(bytes: Uint8Array): void;
  heard(): void;
  sentTooMuch(): void;
  closed(code: number): void;
}

const END_OF_INPUT = new Uint8Array(0);

/** Bytes that wait, or something else that has happened on the connection. */
type Waiting = Piece | Happening;

class Piece {
  /** What is left of it. */
  bytes: Uint8Array;
  /** What its bytes cost as the messages in which they came; at most `MIN_COST` each. */
  cost: number;
  /** The buffer that `bytes` is the end of so far, with room for more. */
  #buffer: Buffer | undefined;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.cost = costOf(bytes);
  }

  /** Appends bytes, if they are few. */
  joins(bytes: Uint8Array): boolean {
    const { length } = this.bytes;
    const buffer = this.#buffer ?? (length + bytes.length <= JOINED_BYTES ? this.#copy() : undefined);
    if (!buffer) return false;
    const end = this.bytes.byteOffset - buffer.byteOffset + length;
    if (end + bytes.length > buffer.length) return false;
    buffer.set(bytes, end);
    this.bytes = buffer.subarray(end - length, end + bytes.length);
    this.cost += costOf(bytes);
    return true;
  }

  /** Cuts off as many bytes as may be had for this. */
  take(cost: number): Uint8Array {
    const { bytes } = this;
    const count = cost < this.cost ? Math.floor((bytes.length * cost) / this.cost) : bytes.length;
    this.cost = Math.max(this.cost - cost, 0);
    this.bytes = bytes.subarray(count);
    return bytes.subarray(0, count);
  }

  #copy(): Buffer {
    this.#buffer = Buffer.allocUnsafeSlow(JOINED_BYTES);
    this.#buffer.set(this.bytes);
    this.bytes = this.#buffer.subarray(0, this.bytes.length);
    return this.#buffer;
  }
}

interface Happening {
  readonly run: () => void;
  cost: number;
}

const costOf = ({ length }: Uint8Array) => Math.max(length, MIN_COST);

/** The inputs of all connections of a host: the more of them wait for their turn, the less each may take. */
export class Inputs {
  readonly batch: Batch;
  /** Those that wait for their turn. */
  waiting = 0;

  constructor(batch: Batch) {
    this.batch = batch;
  }

  open(events: InputEvents): Input {
    return new Input(this, events);
  }

  /** What one connection may take in one batch. */
  get share(): number {
    if (this.waiting * MAX_PER_BATCH <= MAX_PER_ROUND) return MAX_PER_BATCH;
    return Math.max(MAX_PER_ROUND / this.waiting, MIN_PER_BATCH);
  }
}

/** The input of one connection: however much arrives, each batch takes a little. */
export class Input implements Connection {
  readonly #all: Inputs;
  readonly #batch: Batch;
  readonly #events: InputEvents;
  /** In order. */
  #waiting: Waiting[] = [];
  #waitingCost = 0;
  /** What is left in `#waiting` is looked at after this batch. */
  #isPlanned = false;
  #isPaused = false;
  /** Nothing is taken until `proceed`. */
  #isHeld = false;
  #hasEnded = false;
  /** The number of the batch that has taken some last. */
  #lastBatch = -1;
  /** The cost of what was taken in that batch. */
  #taken = 0;

  constructor(all: Inputs, events: InputEvents) {
    this.#all = all;
    this.#batch = all.batch;
    this.#events = events;
  }

  received(bytes: Uint8Array): void {
    const cost = costOf(bytes);
    if (this.#mayEnter(cost) && !this.#events.isBehind()) this.#enter(cost, () => this.#events.take(bytes));
    else {
      const last = this.#waiting.at(-1);
      if (!(last instanceof Piece && last.joins(bytes))) this.#waiting.push(new Piece(bytes));
      this.#waits(cost);
    }
  }

  heard(): void {
    if (this.#mayEnter(MIN_COST)) this.#enter(MIN_COST, this.#heard);
    else {
      const last = this.#waiting.at(-1);
      if (last && !(last instanceof Piece) && last.run === this.#heard) last.cost += MIN_COST;
      else this.#waiting.push({ run: this.#heard, cost: MIN_COST });
      this.#waits(MIN_COST);
    }
  }

  inputEnded(): void {
    // Said again, it is no more than a sign of life.
    if (this.#hasEnded) this.heard();
    else {
      this.#hasEnded = true;
      this.#happened(MIN_COST, () => this.#events.take(END_OF_INPUT));
    }
  }

  sentTooMuch(): void {
    this.#happened(0, () => this.#events.sentTooMuch());
  }

  /** A client that has closed its connection wants what it has sent before; one that has vanished may not. */
  closed(code: number): void {
    if (code === VANISHED) this.#forget();
    this.#happened(0, () => this.#events.closed(code));
  }

  /** Must be called when `isBehind` may have become false. */
  proceed(): void {
    if (!this.#isHeld || this.#events.isBehind()) return;
    this.#isHeld = false;
    this.#plan();
  }

  readonly #heard = () => this.#events.heard();

  /** What may still be taken in this batch. */
  get #room(): number {
    if (this.#lastBatch !== this.#batch.number) {
      this.#lastBatch = this.#batch.number;
      this.#taken = 0;
    }
    return Math.floor(this.#all.share) - this.#taken;
  }

  /** Whether this much may be entered now. With a backlog the batch is over: what were entered would not be bounded. */
  #mayEnter(cost: number): boolean {
    return this.#waiting.length === 0 && cost <= this.#room && this.#batch.backlog === 0;
  }

  #enter(cost: number, command: () => void): void {
    this.#taken += cost;
    this.#batch.enter(() => {
      if (this.#events.isCurrent()) command();
    });
  }

  /** Enters it after what waits. */
  #happened(cost: number, run: () => void): void {
    if (this.#waiting.length === 0) this.#enter(cost, run);
    else {
      this.#waiting.push({ run, cost });
      this.#waits(cost);
    }
  }

  #waits(cost: number): void {
    this.#waitingCost += cost;
    if (this.#waitingCost > MAX_WAITING && !this.#isPaused) {
      this.#isPaused = true;
      this.#events.pause();
    }
    this.#plan();
  }

  #forget(): void {
    this.#waiting = [];
    this.#waitingCost = 0;
  }

  #plan(): void {
    if (this.#isPlanned || this.#isHeld) return;
    this.#isPlanned = true;
    this.#all.waiting += 1;
    this.#batch.afterBatch(() => this.#batch.enter(() => this.#takeWaiting()));
  }

  #takeWaiting(): void {
    this.#isPlanned = false;
    this.#all.waiting -= 1;
    this.#batch.takesLong();
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const cost = Math.min(Math.max(this.#room, 0), next.cost);
      if (cost < Math.min(next.cost, MIN_COST) || !this.#events.isCurrent() || this.#events.isBehind()) break;
      this.#waitingCost -= cost;
      this.#taken += cost;
      if (next.cost === cost) this.#waiting.shift();
      if (next instanceof Piece) this.#events.take(next.take(cost));
      else {
        next.cost -= cost;
        if (next.cost === 0) next.run();
      }
    }
    if (!this.#events.isCurrent()) this.#forget();
    else if (this.#waiting.length > 0) {
      this.#isHeld = this.#events.isBehind();
      this.#plan();
    } else if (this.#isPaused) {
      this.#isPaused = false;
      this.#events.resume();
    }
  }
}
