import type { Carrier, Connection } from "../../../src/node/clients.ts";
import type { NodeHost } from "../../../src/node/host.ts";
import { Lane } from "../schedule.ts";
import type { Line, World } from "./world.ts";

/** The client's end of a socket. */
export interface SocketOwner {
  heard(socket: Socket, line: string): void;
  /** The server has closed the socket, or is gone (1006). */
  ended(socket: Socket, code: number): void;
}

const encoder = new TextEncoder();

/** A client's socket. What is sent arrives in pieces, in order; what the server sends arrives at once. */
export class Socket implements Carrier, Line {
  readonly #world: World;
  readonly #owner: SocketOwner;
  readonly #host: NodeHost | undefined;
  readonly #lane: Lane;
  #connection: Connection | undefined;
  #unsent = "";
  #isFlushing = false;
  #isPaused = false;
  readonly #held: Uint8Array[] = [];
  /** The client can still use it. */
  #isOpen = true;
  /** The server has not been told of its end. */
  #isKnown = true;

  constructor(world: World, owner: SocketOwner) {
    this.#world = world;
    this.#owner = owner;
    this.#host = world.host;
    this.#lane = new Lane(world.schedule);
    world.lines.add(this);
  }

  attached(connection: Connection): void {
    this.#connection = connection;
  }

  // The server's side.

  send(lines: readonly string[]): void {
    for (const line of lines) {
      if (!this.#isOpen || !this.#world.runs(this.#host) || !this.#world.sends()) return;
      this.#owner.heard(this, line.trimEnd());
    }
  }

  acknowledge(): void {}

  close(code: number): void {
    if (!this.#world.runs(this.#host)) return;
    if (this.#isOpen) {
      this.#end();
      this.#owner.ended(this, code);
    }
    this.#tellServer(this.#world.schedule.between(0, 20), code);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const piece of this.#held.splice(0)) this.#deliver(piece);
  }

  // The client's side.

  say(text: string): void {
    if (!this.#isOpen) return;
    this.#unsent += text;
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    this.#world.schedule.after(this.#world.schedule.between(0, 4), () => this.#flush());
  }

  /** The client will send nothing more, and still reads. */
  endInput(): void {
    this.#flush();
    this.#lane.send(1, () => this.#connection?.inputEnded());
  }

  /** The client closes it: everything said before arrives first. */
  shut(code: number): void {
    if (!this.#isOpen) return;
    this.#flush();
    this.#end();
    this.#lane.send(1, () => this.#tellServer(0, code));
  }

  /** The connection breaks. The server notices later. */
  cut(): void {
    if (!this.#isOpen) return;
    const { schedule } = this.#world;
    this.#end();
    if (schedule.happens(0.5)) this.#lane.cut();
    this.#tellServer(schedule.happens(0.3) ? schedule.between(500, 6_000) : schedule.between(30, 60), 1006);
  }

  /** The process has died. */
  lost(): void {
    this.#world.lines.delete(this);
    this.#lane.cut();
    this.#isKnown = false;
    if (!this.#isOpen) return;
    this.#end();
    this.#owner.ended(this, 1006);
  }

  #end(): void {
    this.#isOpen = false;
  }

  #tellServer(ms: number, code: number): void {
    this.#world.schedule.after(ms, () => {
      if (!this.#isKnown || !this.#world.runs(this.#host)) return;
      this.#isKnown = false;
      this.#lane.cut();
      this.#world.lines.delete(this);
      this.#connection?.closed(code);
    });
  }

  #flush(): void {
    this.#isFlushing = false;
    const { schedule } = this.#world;
    const bytes = encoder.encode(this.#unsent);
    this.#unsent = "";
    for (let at = 0; at < bytes.length; ) {
      const length = schedule.happens(0.5) ? bytes.length : schedule.between(1, 40);
      const piece = bytes.slice(at, at + length);
      at += length;
      this.#lane.send(schedule.between(0, 3), () => this.#deliver(piece));
    }
  }

  #deliver(piece: Uint8Array): void {
    if (!this.#isKnown || !this.#world.runs(this.#host)) return;
    if (this.#isPaused) {
      this.#held.push(piece);
      return;
    }
    this.#connection?.received(piece);
  }
}
