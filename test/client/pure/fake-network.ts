/** Sockets that are none, between a client and a service in one process: every line travels until the test has it arrive. */

/** Has something happen later: each call of `arrive` is one thing that arrives, the oldest of its lane. */
export type Carrier = (label: string, arrive: () => void) => void;

/** What a service is told of its sockets. */
export interface Host {
  opened(socket: FakeSocket, credential: string | undefined): void;
  received(socket: FakeSocket, text: string): void;
  closed(socket: FakeSocket, code: number): void;
}

type SocketEvent = { readonly data: unknown; readonly code: number };
type Listener = (event: SocketEvent) => void;
const LOST = 1006;

/** One direction of one connection: things arrive in the order in which they were sent. */
class Lane {
  readonly #carry: Carrier;
  #travelling: { readonly label: string; readonly arrive: () => void }[] = [];
  #isCarried = false;
  isCut = false;

  constructor(carry: Carrier) {
    this.#carry = carry;
  }

  send(label: string, arrive: () => void): void {
    if (this.isCut) return;
    this.#travelling.push({ label, arrive });
    this.#next();
  }

  /** The oldest `kept` of what is under way still arrive, then the end, and nothing after that. */
  cut(kept: number, end: () => void): void {
    if (this.isCut) return;
    this.#travelling = this.#travelling.slice(0, kept);
    this.send("cut", end);
    this.isCut = true;
  }

  #next(): void {
    const [first] = this.#travelling;
    if (this.#isCarried || !first) return;
    this.#isCarried = true;
    this.#carry(first.label, () => {
      this.#isCarried = false;
      this.#travelling.shift()?.arrive();
      this.#next();
    });
  }
}

/** A socket, as its client sees it and as its service does. */
export class FakeSocket {
  readonly #host: Host;
  readonly #wire: Wire;
  readonly #up: Lane;
  readonly #down: Lane;
  readonly #listeners = new Map<string, Listener[]>();
  #state: "connecting" | "open" | "closing" | "closed" = "connecting";

  constructor(host: Host, wire: Wire, protocols: readonly string[]) {
    this.#host = host;
    this.#wire = wire;
    this.#up = new Lane((label, arrive) => wire.carry(`${wire.name} > ${label}`, arrive));
    this.#down = new Lane((label, arrive) => wire.carry(`${wire.name} < ${label}`, arrive));
    const credential = /^holdfast\.resume\.(.*)$/.exec(protocols[1] ?? "")?.[1];
    if (wire.isDown) this.lose({ up: 0, down: 0 });
    else this.#up.send("open", () => host.opened(this, credential));
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  send(text: string): void {
    if (this.#state === "connecting") throw new Error("not open yet");
    if (this.#state !== "open") return;
    this.#wire.sent(text);
    this.#up.send(JSON.stringify(text), () => this.#host.received(this, text));
  }

  close(code = 1000): void {
    if (this.#state === "closing" || this.#state === "closed") return;
    // Without a handshake there is nobody to say goodbye to.
    if (this.#state === "connecting") this.lose({ up: Number.POSITIVE_INFINITY, down: 0 });
    this.#state = "closing";
    this.#up.send(`close ${code}`, () => this.#host.closed(this, code));
  }

  get isOpen(): boolean {
    return this.#state === "open" && !this.#down.isCut;
  }

  /** The service takes the connection. */
  accept(): void {
    this.#down.send("open", () => this.#tell("open"));
  }

  /** The service says something; `heard` is called once the client has. */
  say(line: string, heard: () => void): void {
    this.#down.send(line, () => {
      if (this.#state !== "open") return;
      this.#tell("message", { data: line });
      heard();
    });
  }

  /** The service closes, or answers a close. */
  hangUp(code: number): void {
    this.#down.send(`close ${code}`, () => this.#tell("close", { code }));
  }

  /** The network loses it: so much of what is under way still arrives. */
  lose(kept: Kept): void {
    this.#up.cut(kept.up, () => this.#host.closed(this, LOST));
    this.#down.cut(kept.down, () => this.#tell("close", { code: LOST }));
  }

  #tell(type: "open" | "message" | "close", event: Partial<SocketEvent> = {}): void {
    if (this.#state === "closed" || (type === "open" && this.#state !== "connecting")) return;
    if (type === "open") this.#state = "open";
    if (type === "close") this.#state = "closed";
    for (const listener of this.#listeners.get(type) ?? []) listener({ data: undefined, code: LOST, ...event });
  }
}

/** How many lines of those under way outlive a cut, in either direction. */
export interface Kept {
  readonly up: number;
  readonly down: number;
}

/** One client's way to the service. */
export class Wire {
  readonly name: string;
  readonly carry: Carrier;
  readonly sent: (text: string) => void;
  /** No new connection comes about. */
  isDown = false;
  readonly WebSocket: new (
    url: string,
    protocols: string[],
  ) => FakeSocket;
  #last: FakeSocket | undefined;

  constructor(host: Host, name: string, carry: Carrier, sent: (text: string) => void = () => {}) {
    this.name = name;
    this.carry = carry;
    this.sent = sent;
    const wire = this;
    this.WebSocket = class extends FakeSocket {
      constructor(_url: string, protocols: string[]) {
        super(host, wire, protocols);
        wire.#last = this;
      }
    };
  }

  get isConnected(): boolean {
    return this.#last?.isOpen === true;
  }

  cut(kept: Kept): void {
    this.#last?.lose(kept);
  }
}
