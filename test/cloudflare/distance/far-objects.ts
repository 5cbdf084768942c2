/**
 * Puts objects far apart, in the real runtime and in virtual time: a call of an object takes some time to arrive, its
 * answer takes as long, and so does what is pushed over a socket between two of them. A client is next to its session
 * and to its Worker, so what they tell each other takes no time.
 *
 * Everything that crosses carries the crossings that came before it, so that whatever reaches a client knows the path by
 * which it came.
 */
import { env, exports } from "cloudflare:workers";
import { AsyncLocalStorage } from "node:async_hooks";
import type { KeyObjectCommand } from "../../../src/cloudflare/calls/key-calls.ts";
import worker, * as service from "../../../src/cloudflare/index.ts";
import { KeyLocks } from "../../../src/cloudflare/lock-key/key-locks.ts";
import { Counting } from "../cost/counting.ts";
import type { Client } from "../support.ts";

const OBJECTS = {
  KEY: service.KeyObject,
  SESSION: service.SessionObject,
  HTTP_SESSION: service.HttpSessionObject,
  DIRECTORY: service.DirectoryObject,
  METRICS: service.MetricsObject,
} as const;
type Kind = keyof typeof OBJECTS;

const FLIGHT_HEADER = "X-Test-Flight";
/** Before and after the number of a flight, at the start of a message. */
const MARK = "\u0000";

export interface Distance {
  /** One way, in ms. */
  readonly crossingMs: number;
  /** The directory and metrics take this much longer to answer. */
  readonly slowMs: number;
}

/** A call on its way there, its answer on its way back, or a message over a socket. */
export interface Crossing {
  readonly what: string;
  readonly way: "there" | "back" | "push";
}
type Path = readonly Crossing[];

/** A line, a reply or a result that a client gets. The text of a result is the name of the call. */
interface Arrival {
  readonly what: "line" | "reply" | "result";
  readonly text: string;
  readonly at: number;
  readonly path: Path;
}

/** What a client has waited for. */
export interface Way {
  readonly elapsedMs: number;
  readonly path: Path;
}

/** A request to the Worker or an event of an object, and how it has come to be where it is. */
interface Happening {
  readonly kind: Kind | "Worker";
  path: Path;
}

interface Flight {
  /** The call, as `KEY acquire`, once it has arrived. */
  what: string;
  readonly path: Path;
  readonly isFar: boolean;
  /** The path of the answer; undefined while there is none. */
  answer: Path | undefined;
  /** Neither its sender nor its receiver counts it as running. */
  isUnseen: boolean;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

export class FarObjects {
  distance: Distance = { crossingMs: 0, slowMs: 0 };
  /** Every call that was made so far, as `KEY acquire`. */
  readonly calls: string[] = [];
  readonly #event = new AsyncLocalStorage<Happening>();
  readonly #flights = new Map<string, Flight>();
  readonly #arrivals: Arrival[] = [];
  /** The ends of sockets that are not at an object. The test runner has one of its own, from before. */
  readonly #listening = new WeakSet<object>();
  /** Those that a Worker has closed. It hears of the end when the object has answered. */
  readonly #closing = new WeakSet<object>();
  readonly #undo: (() => void)[] = [];
  #counting!: Counting;
  #lastFlight = 0;
  /** Requests and messages of clients that the service has begun to handle. */
  #begun = 0;

  static async begin(): Promise<FarObjects> {
    const far = new FarObjects();
    // Counting has to run around the receiving end and within the sending end: what crosses is waited for by its caller.
    for (const kind of Object.keys(OBJECTS) as Kind[]) far.#receiveCalls(kind);
    far.#counting = await Counting.begin({ shortMs: 0 });
    far.#undo.push(() => far.#counting.end());
    far.#sendCalls();
    far.#watchSockets();
    far.#watchWorker();
    return far;
  }

  end(): void {
    for (const undo of this.#undo.reverse()) undo();
  }

  pass(ms: number): Promise<void> {
    return this.#counting.pass(ms);
  }

  /** What the client waits for until it gets a line, the one that begins with `begin`. */
  line(start: () => void, begin = ""): Promise<Way> {
    return this.#measure(start, ({ what, text }) => what === "line" && text.startsWith(begin));
  }

  /** A line that answers a request over a socket. */
  async ask(client: Client, text: string): Promise<Way & { readonly line: string }> {
    const way = await this.line(() => client.send(text));
    return { ...way, line: await client.line() };
  }

  /** What a client of HTTP or of the binding waits for. */
  async request<Reply>(
    what: "reply" | "result",
    start: () => Promise<Reply>,
  ): Promise<Way & { readonly reply: Reply }> {
    let asked: Promise<Reply> | undefined;
    const begin = () => {
      asked = start();
    };
    const way = await this.#measure(begin, (arrival) => arrival.what === what);
    return { ...way, reply: (await asked) as Reply };
  }

  /** The same for something that was asked for before, and that `start` brings about. */
  reply(what: "reply" | "result", start: () => void, text = ""): Promise<Way> {
    return this.#measure(start, (arrival) => arrival.what === what && arrival.text === text);
  }

  async #measure(start: () => void, isEnd: (arrival: Arrival) => boolean): Promise<Way> {
    await this.#counting.quiet();
    const [startedAt, seen, begun] = [Date.now(), this.#arrivals.length, this.#begun];
    start();
    while (this.#begun === begun) await scheduler.wait(1);
    for (;;) {
      await this.#counting.quiet();
      const end = this.#arrivals.slice(seen).find(isEnd);
      if (end) return { elapsedMs: end.at - startedAt, path: end.path };
      if (!(await this.#counting.next())) throw new Error("nothing happens, and the client still waits");
    }
  }

  #patch(object: object, name: string, wrap: (original: Method) => Method): void {
    const methods = object as Record<string, Method>;
    const original = methods[name];
    if (!original) throw new Error(`there is no ${name}`);
    const isOwn = Object.hasOwn(object, name);
    methods[name] = wrap(original);
    this.#undo.push(() => {
      if (isOwn) methods[name] = original;
      else delete methods[name];
    });
  }

  #send(isFar: boolean): { readonly id: string; readonly flight: Flight } {
    this.#lastFlight += 1;
    const id = String(this.#lastFlight);
    const flight = { path: this.#event.getStore()?.path ?? [], isFar, what: "", answer: undefined, isUnseen: false };
    this.#flights.set(id, flight);
    return { id, flight };
  }

  /** Nobody else would know that it is on its way. */
  #unseen(flight: Flight, isUnseen: boolean): void {
    if (flight.isUnseen === isUnseen) return;
    flight.isUnseen = isUnseen;
    this.#counting.onItsWay(isUnseen ? 1 : -1);
  }

  #cross(): Promise<void> {
    return scheduler.wait(this.distance.crossingMs);
  }

  /** Calls of stubs: methods, also those to come, and `fetch`. */
  #sendCalls(): void {
    const far = this;
    const distant = (stub: object) =>
      new Proxy(stub, {
        get(target, name) {
          if (name === "then") return undefined;
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          return async (...args: unknown[]) => {
            const event = far.#event.getStore();
            const { id, flight } = far.#send(true);
            await far.#cross();
            try {
              return await Reflect.apply(value, target, name === "fetch" ? [labelled(args, id)] : [...args, mark(id)]);
            } finally {
              const { answer } = flight;
              far.#flights.delete(id);
              await far.#cross();
              if (event && answer) event.path = [...answer, { what: flight.what, way: "back" }];
            }
          };
        },
      });
    for (const name of ["get", "getByName"]) {
      this.#patch(Object.getPrototypeOf(env.KEY), name, (original) => {
        return function (...args) {
          return distant(original.apply(this, args) as object);
        };
      });
    }
  }

  /** What an object is called with, and the messages of its sockets. */
  #receiveCalls(kind: Kind): void {
    const far = this;
    const { prototype } = OBJECTS[kind];
    const isSlow = kind === "DIRECTORY" || kind === "METRICS";
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      if (name === "constructor" || typeof value !== "function") continue;
      this.#patch(prototype, name, (original) => {
        if (name === "webSocketMessage")
          return function (socket, message) {
            return far.#heard(kind, message, (text) => original.call(this, socket, text));
          };
        return function (...args) {
          const id = name === "fetch" ? (args[0] as Request).headers.get(FLIGHT_HEADER) : numberIn(args.at(-1));
          const flight = id && far.#flights.get(id);
          // An alarm or a close; or an object that calls a method of its own.
          if (!flight)
            return far.#event.run(far.#event.getStore() ?? { kind, path: [] }, () => original.apply(this, args));
          if (name !== "fetch") args.pop();
          // What is asked of a key is in its command.
          const what = `${kind} ${name === "command" ? (args[0] as KeyObjectCommand).type : name}`;
          flight.what = what;
          far.calls.push(what);
          const event: Happening = { kind, path: [...flight.path, { what, way: "there" }] };
          return far.#event.run(event, async () => {
            try {
              return await original.apply(this, args);
            } finally {
              if (isSlow) await scheduler.wait(far.distance.slowMs);
              flight.answer = event.path;
            }
          });
        };
      });
    }
  }

  /** A message that has come to an object. */
  #heard(kind: Kind, message: unknown, handle: (message: unknown) => unknown): unknown {
    const { id, text } = splitMessage(message);
    const flight = this.#flights.get(id);
    if (!flight) return this.#event.run({ kind, path: [] }, () => handle(text));
    this.#flights.delete(id);
    this.#begun += 1;
    this.#unseen(flight, false);
    if (!flight.isFar) return this.#event.run({ kind, path: flight.path }, () => handle(text));
    const event: Happening = { kind, path: [...flight.path, { what: `to ${kind}`, way: "push" }] };
    return this.#event.run(event, async () => {
      await this.#cross();
      return handle(text);
    });
  }

  #watchSockets(): void {
    const far = this;
    this.#patch(WebSocket.prototype, "send", (original) => {
      return function (data, ...rest) {
        const socket = this as WebSocket;
        const isOurs = far.#listening.has(socket) || socket.deserializeAttachment() !== null;
        if (!isOurs || typeof data !== "string" || data === "") return original.call(this, data, ...rest);
        const sender = far.#event.getStore()?.kind;
        const { id, flight } = far.#send(sender !== undefined && sender !== "SESSION");
        far.#unseen(flight, true);
        try {
          return original.call(this, `${MARK}${id}${MARK}${data}`, ...rest);
        } catch (error) {
          far.#flights.delete(id);
          far.#unseen(flight, false);
          throw error;
        }
      };
    });
    this.#patch(WebSocket.prototype, "close", (original) => {
      return function (...args) {
        const socket = this as WebSocket;
        // Until the object has answered it, the close is on its way, and nobody else knows.
        const isAwaited =
          socket.readyState === WebSocket.OPEN && far.#listening.has(socket) && !far.#closing.has(socket);
        if (isAwaited && far.#event.getStore()?.kind === "Worker") {
          far.#closing.add(socket);
          far.#counting.onItsWay(1);
        }
        return original.apply(this, args);
      };
    });
    this.#patch(WebSocket.prototype, "addEventListener", (original) => {
      return function (type, listener) {
        const socket = this as WebSocket;
        const event = far.#event.getStore();
        const here = AsyncLocalStorage.snapshot();
        if (type === "close" && event) {
          const ended = (close: Event) => {
            const tell = () => (listener as (close: Event) => void)(close);
            if (!far.#closing.delete(socket)) return tell();
            far.#counting.onItsWay(-1);
            return here(async () => {
              for (const what of ["close", "closed"]) {
                await far.#cross();
                event.path = [...event.path, { what, way: "push" }];
              }
              tell();
            });
          };
          return original.call(this, type, ended);
        }
        if (type !== "message") return original.call(this, type, listener);
        far.#listening.add(socket);
        const told = ({ data }: MessageEvent) => {
          const { id, text } = splitMessage(data);
          const flight = far.#flights.get(id);
          far.#flights.delete(id);
          const tell = () => (listener as (event: MessageEvent) => void)(new MessageEvent("message", { data: text }));
          if (!flight) return tell();
          if (!event) far.#arrived("line", String(text), flight.path);
          far.#unseen(flight, false);
          if (!event) return tell();
          return here(async () => {
            await far.#cross();
            event.path = [...flight.path, { what: `to ${event.kind}`, way: "push" }];
            tell();
          });
        };
        return original.call(this, type, told);
      };
    });
  }

  #watchWorker(): void {
    const far = this;
    this.#patch(worker, "fetch", (original) => {
      return function (...args) {
        return far.#runWorker("reply", "", () => original.apply(this, args));
      };
    });
    for (const { prototype } of [service.Locks, KeyLocks])
      for (const name of ["acquire", "renew", "release"])
        this.#patch(prototype, name, (original) => {
          return function (...args) {
            return far.#runWorker("result", name, () => original.apply(this, args));
          };
        });
    // What a Worker asks itself takes no time, and nobody else sees that it is on its way.
    this.#patch(Object.getPrototypeOf(exports.LockWaits), "fetch", (original) => {
      return async function (...args) {
        const event = far.#event.getStore();
        if (!event) return original.apply(this, args);
        const { id, flight } = far.#send(false);
        far.#unseen(flight, true);
        const reply = await (original.call(this, labelled(args, id)) as Promise<Response>);
        far.#flights.delete(id);
        far.#unseen(flight, false);
        event.path = flight.answer ?? event.path;
        return reply;
      };
    });
    this.#patch(service.LockWaits.prototype, "fetch", (original) => {
      return function (...args) {
        const flight = far.#flights.get((args[0] as Request).headers.get(FLIGHT_HEADER) ?? "");
        if (!flight) throw new Error("a wait that nobody has asked for");
        far.#unseen(flight, false);
        const event: Happening = { kind: "Worker", path: flight.path };
        const handle = async () => {
          const reply = await original.apply(this, args);
          flight.answer = event.path;
          far.#unseen(flight, true);
          return reply;
        };
        return far.#event.run(event, () => far.#counting.inWorker(handle));
      };
    });
  }

  #runWorker(what: "reply" | "result", text: string, handle: () => unknown): unknown {
    const event: Happening = { kind: "Worker", path: [] };
    this.#begun += 1;
    return this.#event.run(event, () =>
      this.#counting.inWorker(async () => {
        const result = await handle();
        this.#arrived(what, text, event.path);
        return result;
      }),
    );
  }

  #arrived(what: Arrival["what"], text: string, path: Path): void {
    this.#arrivals.push({ what, text, at: Date.now(), path });
  }
}

const mark = (id: string) => `${MARK}${id}`;

function numberIn(arg: unknown): string | undefined {
  return typeof arg === "string" && arg.startsWith(MARK) ? arg.slice(MARK.length) : undefined;
}

function labelled([address, init]: readonly unknown[], id: string): Request {
  const request = new Request(address as string, init as RequestInit);
  request.headers.set(FLIGHT_HEADER, id);
  return request;
}

function splitMessage(message: unknown): { readonly id: string; readonly text: unknown } {
  if (typeof message !== "string" || !message.startsWith(MARK)) return { id: "", text: message };
  const end = message.indexOf(MARK, MARK.length);
  return { id: message.slice(MARK.length, end), text: message.slice(end + MARK.length) };
}
