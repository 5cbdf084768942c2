import { Lane } from "./schedule.ts";
import type { SocketHost } from "./socket-host.ts";
import type { World } from "./world.ts";

const encoder = new TextEncoder();

/** What a socket's client hears. */
export interface SocketClient {
  opened(socket: SimulatedSocket): void;
  heard(socket: SimulatedSocket, line: string): void;
  ended(socket: SimulatedSocket, reason: string): void;
}

/** A connection between a client and a session's object: both ways keep their order, and may be cut. */
export class SimulatedSocket {
  readonly #world: World;
  readonly #client: SocketClient;
  readonly #up: Lane;
  readonly #down: Lane;
  #host: SocketHost | undefined;
  #isOver = false;
  /** How the client, or the network, closed it before a session took it. */
  closedWith: number | undefined;

  constructor(world: World, client: SocketClient) {
    this.#world = world;
    this.#client = client;
    this.#up = new Lane(world.schedule);
    this.#down = new Lane(world.schedule);
  }

  /** The client asks to be connected. */
  connect(host: SocketHost, secret: string | undefined): void {
    this.#up.send(this.#world.delay(), () => host.connect(this, secret));
  }

  accept(host: SocketHost): void {
    this.#host = host;
    this.#down.send(this.#world.delay(), () => this.#client.opened(this));
  }

  refuse(reason: string): void {
    this.#down.send(this.#world.delay(), () => this.#end(reason));
  }

  /** The service sends a line. */
  send(line: string): void {
    this.#down.send(this.#world.delay(), () => this.#client.heard(this, line.trimEnd()));
  }

  hangUp(code: number): void {
    this.#down.send(this.#world.delay(), () => this.#end(String(code)));
  }

  /** The service has lost the connection. */
  break(code: number): void {
    this.#up.cut();
    this.hangUp(code);
  }

  /** The client sends a request. */
  say(text: string): void {
    this.#up.send(this.#world.delay(), () => this.#host?.received(this, encoder.encode(text)));
  }

  /** The client closes. */
  close(code: number): void {
    this.#down.cut();
    this.#isOver = true;
    this.#up.send(this.#world.delay(), () => this.#close(code));
  }

  /** The network fails: what is under way is lost, and each end notices in its own time. */
  cut(): void {
    const { schedule } = this.#world;
    this.#world.tell("a connection is cut");
    this.#up.cut();
    this.#down.cut();
    const noticed = () => (schedule.happens(0.3) ? schedule.between(1_000, 15_000) : schedule.between(1, 50));
    schedule.after(noticed(), () => this.#close(1006));
    schedule.after(noticed(), () => this.#end("1006"));
  }

  #close(code: number): void {
    this.closedWith ??= code;
    this.#host?.closed(this, code);
  }

  #end(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#client.ended(this, reason);
  }
}
