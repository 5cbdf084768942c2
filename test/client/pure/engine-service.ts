/**
 * The service's own engine behind sockets that are none: one key, real rules, and every line in either direction is
 * delivered when the test's scheduler says so, in order on each socket.
 */
import { KeyEngine, type Moment } from "../../../src/engine/index.ts";
import type { FakeClock } from "./fake-clock.ts";

type Event = { readonly data: unknown; readonly code: number };
type Listener = (event: Event) => void;
/** Carries something out later. */
export type Carrier = (label: string, deliver: () => void) => void;

const IDLE_MS = 60_000;

class EngineSocket {
  readonly #service: EngineService;
  readonly #listeners = new Map<string, Listener[]>();
  readonly session: string;
  isOver = false;

  constructor(service: EngineService, _url: string, protocols: string[]) {
    this.#service = service;
    this.session = service.attach(this, /^holdfast\.resume\.(.*)$/.exec(protocols[1] ?? "")?.[1]);
    this.#carry("open", () => this.tell("open", {}));
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, [...(this.#listeners.get(type) ?? []), listener]);
  }

  send(text: string): void {
    this.#carry(`> ${JSON.stringify(text)}`, () => this.#service.receive(this, text));
  }

  say(line: string): void {
    this.#carry(`< ${line}`, () => this.tell("message", { data: `${line}\n` }));
  }

  close(): void {
    this.lose();
  }

  lose(): void {
    if (this.isOver) return;
    this.isOver = true;
    queueMicrotask(() => this.tell("close", { code: 1006 }));
  }

  tell(type: string, event: Partial<Event>): void {
    for (const listener of this.#listeners.get(type) ?? []) listener({ data: undefined, code: 1006, ...event });
  }

  #carry(label: string, deliver: () => void): void {
    this.#service.carry(this.session, label, () => {
      if (!this.isOver) deliver();
    });
  }
}

export class EngineService {
  readonly engine = new KeyEngine({ limit: 1, fence: 0n, lastActivity: 0, slots: [], waiters: [], lapsed: [] });
  readonly WebSocket: new (
    url: string,
    protocols: string[],
  ) => EngineSocket;
  readonly #clock: FakeClock;
  readonly #carry: Carrier;
  readonly #lanes = new Map<string, { isBusy: boolean; waiting: [string, () => void][] }>();
  readonly #sockets = new Map<string, EngineSocket>();
  /** Requests that wait, with the socket that is to hear of them. */
  readonly #waiting = new Map<string, { readonly session: string; readonly tag: string }>();

  constructor(clock: FakeClock, carry: Carrier) {
    this.#clock = clock;
    this.#carry = carry;
    const service = this;
    this.WebSocket = class extends EngineSocket {
      constructor(url: string, protocols: string[]) {
        super(service, url, protocols);
      }
    };
  }

  /** Delivers one line of a session after the other, each whenever the carrier likes. */
  carry(session: string, label: string, deliver: () => void): void {
    const lane = this.#lanes.get(session) ?? { isBusy: false, waiting: [] };
    this.#lanes.set(session, lane);
    lane.waiting.push([label, deliver]);
    if (!lane.isBusy) this.#next(lane);
  }

  #next(lane: { isBusy: boolean; waiting: [string, () => void][] }): void {
    const first = lane.waiting.shift();
    lane.isBusy = first !== undefined;
    if (!first) return;
    this.#carry(first[0], () => {
      first[1]();
      this.#next(lane);
    });
  }

  attach(socket: EngineSocket, resumed: string | undefined): string {
    const session = resumed?.split(".")[0] ?? `s${this.#sockets.size + 1}`;
    this.#sockets.get(session)?.lose();
    this.#sockets.set(session, socket);
    return session;
  }

  /** Cuts every connection. */
  cut(): void {
    for (const socket of this.#sockets.values()) socket.lose();
  }

  receive(socket: EngineSocket, text: string): void {
    const [, tag = "", command = "", , arg = ""] = /^@(\S+) (\S+)\n(.*)\n(.*)\n$/.exec(text) ?? [];
    const answer = this.#perform(socket.session, tag, command, arg);
    if (answer !== undefined) socket.say(`@${tag} ${answer}`);
    this.#spread();
  }

  #perform(session: string, tag: string, command: string, arg: string): string | undefined {
    const [moment, request] = [this.#moment, `${session}.${tag}`];
    const [first = "", second] = arg.split(" ");
    switch (command) {
      case "session":
        return `ok ${session}.secret 600`;
      case "l": {
        const claim = { session, request, limit: 1, leaseSeconds: Number(second ?? 33), waitMs: Number(first) * 1000 };
        const outcome = this.engine.acquire({ ...claim, mayWait: true }, moment);
        if (outcome.status === "granted") return `ok ${outcome.token} ${outcome.leaseSeconds}`;
        if (outcome.status !== "queued") return outcome.status;
        this.#waiting.set(request, { session, tag });
        return this.#outcomeOf(request);
      }
      case "cancel": {
        const target = `${session}.${first}`;
        if (this.#waiting.delete(target)) {
          this.engine.cancel(target, moment);
          this.#sockets.get(session)?.say(`@${first} cancelled`);
        }
        return "ok";
      }
      case "n": {
        const outcome = this.engine.renew(first, Number(second), moment);
        return outcome.status === "renewed" ? `ok ${outcome.leaseSeconds}` : "error";
      }
      case "r":
        return this.engine.release(first, session, moment).status === "released" ? "ok" : "error";
      default:
        return "ok";
    }
  }

  /** What became of a waiting request; undefined while it waits. */
  #outcomeOf(request: string): string | undefined {
    const outcome = this.engine.pickUp(request, this.#moment);
    if (outcome.status === "queued") return undefined;
    this.#waiting.delete(request);
    return outcome.status === "granted" ? `ok ${outcome.token} ${outcome.leaseSeconds}` : outcome.status;
  }

  /** Tells those who wait what has become of them, if they have a connection; otherwise they ask again. */
  #spread(): void {
    for (const event of this.engine.takeEvents()) {
      const waiting = event.type === "notice" ? this.#waiting.get(event.request) : undefined;
      const socket = waiting && this.#sockets.get(waiting.session);
      if (!waiting || !socket || socket.isOver || event.type !== "notice") continue;
      const answer = this.#outcomeOf(event.request);
      if (answer !== undefined) socket.say(`@${waiting.tag} ${answer}`);
    }
    this.engine.takeChanges();
    this.engine.takeObservations();
  }

  get #moment(): Moment {
    return {
      now: this.#clock.wall(),
      salt: () => "5a17".repeat(4),
      fenceFloor: 0n,
      maxWaiters: 0,
      gcMaxIdleMs: IDLE_MS,
    };
  }
}
