/** A service of nothing but what the test says, at the other end of sockets that are none. */
import { type ConnectOptions, connect, type Lock, type Locks } from "../../../src/client/index.ts";
import { FakeClock, settled } from "./fake-clock.ts";

export const CREDENTIAL = "0123456789abcdef0123456789abcdef.fedcba9876543210fedcba9876543210";
export const GRACE_S = 10;
const KEEPALIVE = "@keepalive ping\n_\n_\n";

type Event = { readonly data: unknown; readonly code: number };
type Listener = (event: Event) => void;

export interface Frame {
  readonly tag: string;
  readonly command: string;
  readonly key: string;
  readonly arg: string;
}

export class FakeSocket {
  readonly url: string;
  readonly protocols: string[];
  /** What the client has sent, without heartbeats. */
  readonly sent: string[] = [];
  /** Messages received, heartbeats aside. */
  messages = 0;
  heartbeats = 0;
  /** The code the client closed it with. */
  closedWith: number | undefined;
  /** Nothing comes through any more, and nobody is told. */
  isBlackHole = false;
  readonly #service: FakeService;
  readonly #listeners = new Map<string, Listener[]>();
  #isOver = false;

  constructor(service: FakeService, url: string, protocols: string[]) {
    this.#service = service;
    this.url = url;
    this.protocols = protocols;
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  send(text: string): void {
    if (this.#isOver) throw new Error("sent on a closed socket");
    if (this.isBlackHole) return;
    if (text === KEEPALIVE) {
      this.heartbeats += 1;
      this.say("@keepalive ok");
    } else {
      this.messages += 1;
      // A message may carry several requests, of three lines each.
      for (const request of text.match(/.*\n.*\n.*\n/g) ?? [text]) {
        this.sent.push(request);
        this.#service.received(this, request);
      }
    }
  }

  close(code?: number): void {
    this.closedWith ??= code;
    if (!this.isBlackHole) queueMicrotask(() => this.lose(code ?? 1005));
  }

  open(): void {
    this.#tell("open", {});
  }

  say(line: string): void {
    if (this.#isOver || this.isBlackHole) return;
    queueMicrotask(() => this.#tell("message", { data: `${line}\n` }));
  }

  /** The connection ends, and the client hears of it. */
  lose(code = 1006): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tell("close", { code });
  }

  #tell(type: string, event: Partial<Event>): void {
    for (const listener of this.#listeners.get(type) ?? []) listener({ data: undefined, code: 1006, ...event });
  }
}

/** How a new socket is met. */
export type Welcome = "session" | "no resuming" | "gone" | "in use" | "refused" | "silence" | "unreachable";

export class FakeService {
  readonly sockets: FakeSocket[] = [];
  welcome: Welcome = "session";
  /** Requests that the handshake is not, in the order they came. */
  readonly frames: Frame[] = [];
  readonly WebSocket: new (
    url: string,
    protocols: string[],
  ) => FakeSocket;
  /** Answers requests by itself; undefined leaves one to the test. */
  reply: (frame: Frame) => string | undefined = () => undefined;

  constructor() {
    const service = this;
    this.WebSocket = class extends FakeSocket {
      constructor(url: string, protocols: string[]) {
        super(service, url, protocols);
        service.sockets.push(this);
        const { welcome } = service;
        if (welcome === "unreachable") queueMicrotask(() => this.lose(1006));
        else if (welcome !== "silence") queueMicrotask(() => this.open());
        if (welcome === "gone" || welcome === "in use") setImmediate(() => this.lose(welcome === "gone" ? 4410 : 4409));
      }
    };
  }

  /** The socket the client speaks on. */
  get socket(): FakeSocket {
    const socket = this.sockets.at(-1);
    if (!socket) throw new Error("nobody has connected");
    return socket;
  }

  /** The last request with this command. */
  last(command: string): Frame {
    const frame = this.frames.findLast((each) => each.command === command);
    if (!frame) throw new Error(`no ${command} among ${JSON.stringify(this.frames)}`);
    return frame;
  }

  count(command: string): number {
    return this.frames.filter((each) => each.command === command).length;
  }

  async answer({ tag }: Frame, answer: string): Promise<void> {
    this.socket.say(`@${tag} ${answer}`);
    await settled();
  }

  received(socket: FakeSocket, text: string): void {
    const [, tag = "", command = "", key = "", arg = ""] = /^(?:@(\S+) )?(\S+)\n(.*)\n(.*)\n$/.exec(text) ?? [];
    if (command === "") throw new Error(`not a request: ${JSON.stringify(text)}`);
    if (this.welcome === "gone" || this.welcome === "in use") return;
    if (this.welcome === "refused") {
      socket.say("error_auth");
      setImmediate(() => socket.lose(4401));
    } else if (command === "auth") socket.say("ok");
    else if (command === "session")
      socket.say(`@${tag} ${this.welcome === "session" ? `ok ${CREDENTIAL} ${GRACE_S}` : "error"}`);
    else if (command === "watch" || command === "ping") socket.say(`@${tag} ok`);
    else {
      const frame = { tag, command, key, arg };
      this.frames.push(frame);
      const reply = this.reply(frame);
      if (reply !== undefined) socket.say(`@${tag} ${reply}`);
    }
  }
}

export interface World {
  readonly clock: FakeClock;
  readonly service: FakeService;
  readonly locks: Locks;
}

export async function world(options: ConnectOptions = {}): Promise<World> {
  const [clock, service] = [new FakeClock(), new FakeService()];
  const locks = connect("ws://service", { clock, WebSocket: service.WebSocket, ...options });
  await settled();
  return { clock, service, locks };
}

let tokens = 0;

/** A token that nobody has had. */
export function freshToken(): string {
  tokens += 1;
  return tokens.toString(16).padStart(32, "0");
}

/** Acquires, with the service granting at once. */
export async function held(
  { service, locks }: World,
  { leaseS = 30, ...options }: { leaseS?: number; maxHold?: number } = {},
): Promise<Lock> {
  const asked = locks.acquire("key", options);
  await settled();
  await service.answer(service.last("l"), `ok ${freshToken()} ${leaseS}`);
  return asked;
}
