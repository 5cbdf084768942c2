/**
 * The service's own session core and engines, behind sockets that are none. Calls between the two take no time; everything
 * between client and session travels as the test says.
 */
import {
  type CommandContext,
  type HolderView,
  KeyEngine,
  type KeyEvent,
  perform,
} from "../../../src/core/engine/index.ts";
import { FrameReader } from "../../../src/core/protocols/wire/frames.ts";
import { parseRequest, type Request, splitTag } from "../../../src/core/protocols/wire/requests.ts";
import type { Effect } from "../../../src/core/session/effects.ts";
import type { KeyCall, KeyOutcome } from "../../../src/core/session/key-calls.ts";
import { ALL_BUT_ADMIN } from "../../../src/core/session/rights.ts";
import { SocketSession } from "../../../src/core/session/socket-session.ts";
import { CONFIG, origin, Stored } from "../../session/stored.ts";
import type { FakeClock } from "./fake-clock.ts";
import type { FakeSocket, Host } from "./fake-network.ts";

export const GRACE_MS = 10_000;
/** Long enough that nothing which is left behind ends by itself before a test has seen it. */
const LEASE_S = 600;
const IDLE_MS = 60_000;
const REFUSED = { session_gone: 4410, session_in_use: 4409 } as const;
const ADMIN = { ...ALL_BUT_ADMIN, isAdmin: true };

interface Hosted {
  readonly session: SocketSession;
  readonly stored: Stored;
  socket: FakeSocket | undefined;
  /** Sockets that want to resume the session, by attempt. */
  readonly attempts: Map<number, FakeSocket>;
  alarm: number;
  /** The tokens of renewals in flight, by tag. */
  readonly renewals: Map<string, string>;
}

export class CoreService implements Host {
  /** Of the key that is called `key`. */
  readonly engine: KeyEngine;
  /** Holds that were taken from their holders, as they were, by token. */
  readonly thefts = new Map<string, HolderView>();
  /** Tokens of which their client has read that they are not held, in a push or as the answer to a renewal. */
  readonly told = new Set<string>();
  /** Losses are told to those who are there, and not again. */
  isForgetful = false;
  /** The types of all requests, as they came. */
  readonly requests: Request["type"][] = [];
  readonly #clock: FakeClock;
  readonly #engines = new Map<string, KeyEngine>();
  readonly #sessions = new Map<string, Hosted>();
  readonly #closed = new Map<FakeSocket, number>();
  #attempts = 0;
  /** Before the last claim. */
  #holders: readonly HolderView[] = [];

  constructor(clock: FakeClock, limit = 1) {
    this.#clock = clock;
    this.engine = this.engineOf("key", limit);
  }

  engineOf(key: string, limit = 1): KeyEngine {
    const there = this.#engines.get(key);
    if (there) return there;
    const engine = new KeyEngine({ limit, fence: 0n, lastActivity: 0, slots: [], waiters: [], lapsed: [] });
    this.#engines.set(key, engine);
    return engine;
  }

  /** When something happens here by itself. */
  get nextWake(): number {
    const wakes = [...this.#sessions.values()].flatMap(({ alarm, session }) => [alarm, session.context.timers.next]);
    const limits = { gcMaxIdleMs: IDLE_MS, graceMs: Number.POSITIVE_INFINITY };
    return Math.min(...[...this.#engines.values()].map((engine) => engine.nextWake(limits)), ...wakes);
  }

  wake(): void {
    const { now } = this.#moment;
    for (const hosted of this.#sessions.values()) {
      this.#run(hosted, () => hosted.session.tick(now));
      if (hosted.alarm > now) continue;
      hosted.alarm = Number.POSITIVE_INFINITY;
      this.#run(hosted, () => hosted.session.wake());
    }
    for (const engine of this.#engines.values()) engine.tick(this.#moment);
    this.#spread();
  }

  isOver(session: string): boolean {
    return this.#sessions.get(session)?.session.isOver !== false;
  }

  opened(socket: FakeSocket, credential: string | undefined): void {
    const [name = "", secret] = credential?.split(".") ?? [];
    if (credential === undefined) {
      const hosted = this.#begin();
      this.#open(hosted, socket);
      return;
    }
    const hosted = this.#sessions.get(name);
    if (!hosted) this.#refuse(socket, REFUSED.session_gone);
    else {
      this.#attempts += 1;
      hosted.attempts.set(this.#attempts, socket);
      this.#run(hosted, () => hosted.session.resume(this.#attempts, secret === hosted.session.resumption.secret));
    }
  }

  closed(socket: FakeSocket, code: number): void {
    socket.hangUp(code);
    const hosted = this.#hostedOn(socket);
    this.#closed.set(socket, code);
    if (!hosted) return;
    const { session } = hosted;
    if (session.survives(code, true)) this.#run(hosted, () => session.detach());
    else this.#run(hosted, () => session.end());
  }

  received(socket: FakeSocket, text: string): void {
    const hosted = this.#hostedOn(socket);
    const bytes = new TextEncoder().encode(text);
    if (!hosted) return;
    for (const event of new FrameReader().read(bytes)) {
      if (event.type !== "frame") return;
      const { tag = "", command = "" } = splitTag(event.frame.command) ?? {};
      const parsed = parseRequest(command, event.frame);
      if (!parsed.ok) throw new Error(`not a request: ${JSON.stringify(text)}`);
      this.requests.push(parsed.request.type);
      if (parsed.request.type === "renew") hosted.renewals.set(tag, parsed.request.token);
    }
    this.#run(hosted, () => hosted.session.received(bytes));
  }

  /** Runs a command of a session, and everything that follows from it. */
  #run(hosted: Hosted, command: () => void): void {
    hosted.session.context.now = this.#clock.wall();
    command();
    for (const effect of hosted.session.context.takeEffects()) this.#carryOut(hosted, effect);
    this.#spread();
  }

  #carryOut(hosted: Hosted, effect: Effect): void {
    const { session, stored, socket } = hosted;
    if (stored.take(effect)) return;
    switch (effect.type) {
      case "callKey": {
        const outcome = this.#call(effect.key, effect.ask);
        this.#run(hosted, () => session.context.keyAnswered(effect.call, outcome));
        break;
      }
      case "send":
        if (socket) this.#send(hosted, socket, effect.line);
        break;
      case "close":
        socket?.hangUp(effect.code);
        break;
      case "detached":
      case "ended":
        hosted.socket = undefined;
        break;
      case "resumed": {
        const waiting = hosted.attempts.get(effect.attempt);
        hosted.attempts.delete(effect.attempt);
        if (!waiting) break;
        if (effect.refusal === undefined) this.#open(hosted, waiting);
        else this.#refuse(waiting, REFUSED[effect.refusal as keyof typeof REFUSED]);
        break;
      }
      case "wake":
        hosted.alarm = effect.at ?? Math.min(hosted.alarm, effect.by ?? Number.POSITIVE_INFINITY);
        break;
      case "log":
        throw new Error(`${effect.event}: ${JSON.stringify(effect.fields)}`);
    }
  }

  #send(hosted: Hosted, socket: FakeSocket, line: string): void {
    const [first = "", second, , token = ""] = line.trim().split(" ");
    const isLoss = first === "!" && second === "lost";
    const renewed = second === "error" ? hosted.renewals.get(first.slice(1)) : undefined;
    if (isLoss && this.isForgetful && !this.#isLosing) return;
    socket.say(line, () => {
      if (isLoss) this.told.add(token);
      if (renewed !== undefined) this.told.add(renewed);
    });
  }

  #call(key: string, call: KeyCall): KeyOutcome {
    const engine = this.engineOf(key);
    if (call.type === "prolong") throw new Error("this service has no peers");
    if (call.type === "acquire") this.#holders = engine.view().holders;
    return perform(engine, call, this.#moment);
  }

  /** Brings the keys' news to their sessions, until there are none. */
  #spread(): void {
    for (const [key, engine] of this.#engines) {
      for (let events = engine.takeEvents(); events.length > 0; events = engine.takeEvents()) {
        for (const event of events) {
          const hosted = this.#sessions.get(event.session);
          if (event.type === "notice") this.#deliver(key, hosted, event);
          else if (event.type === "lost" && hosted) this.#lose(key, hosted, event);
          else if (event.type === "wanted" && hosted)
            this.#run(hosted, () => hosted.session.want({ key, token: event.token }));
        }
      }
      engine.takeChanges();
      engine.takeObservations();
    }
  }

  #deliver(key: string, hosted: Hosted | undefined, event: Extract<KeyEvent, { type: "notice" }>): void {
    const { request } = event;
    const engine = this.engineOf(key);
    if (!hosted) {
      engine.answer(request, "gone", this.#moment);
      return;
    }
    const { session } = hosted;
    session.context.now = this.#clock.wall();
    session.notice(1, { key, ...event });
    // The answer to a notice may follow from the answer of a call to the key.
    for (let effects = session.context.takeEffects(); effects.length > 0; effects = session.context.takeEffects()) {
      for (const effect of effects) {
        if (effect.type === "answerNotice") engine.answer(request, effect.answer, this.#moment);
        else if (effect.type === "callKey")
          session.context.keyAnswered(effect.call, this.#call(effect.key, effect.ask));
        else this.#carryOut(hosted, effect);
      }
    }
  }

  #isLosing = false;

  #lose(key: string, hosted: Hosted, { token, reason }: Extract<KeyEvent, { type: "lost" }>): void {
    const hold = this.#holders.find(({ fence }) => token.startsWith(fence));
    if (reason === "stolen" && hold) this.thefts.set(token, hold);
    this.#isLosing = true;
    this.#run(hosted, () => hosted.session.lose({ key, token, reason }));
    this.#isLosing = false;
  }

  #begin(): Hosted {
    const name = `s${this.#sessions.size + 1}`;
    const stored = new Stored();
    const config = { ...CONFIG, resumeGraceMs: GRACE_MS, defaultLeaseSeconds: LEASE_S };
    const session = new SocketSession(origin(stored, { session: name, config, now: this.#clock.wall() }));
    const alarm = Number.POSITIVE_INFINITY;
    const hosted = { session, stored, socket: undefined, attempts: new Map(), alarm, renewals: new Map() };
    this.#sessions.set(name, hosted);
    return hosted;
  }

  #refuse(socket: FakeSocket, code: number): void {
    socket.accept();
    socket.hangUp(code);
  }

  #open(hosted: Hosted, socket: FakeSocket): void {
    socket.accept();
    hosted.socket = socket;
    const client = { isAuthenticated: true, rights: ADMIN, resumableFrom: "192.0.2.1" };
    this.#run(hosted, () => hosted.session.opened(client));
    // It was closed while it waited to be taken.
    const code = this.#closed.get(socket);
    if (code !== undefined) this.closed(socket, code);
  }

  #hostedOn(socket: FakeSocket): Hosted | undefined {
    return [...this.#sessions.values()].find((hosted) => hosted.socket === socket);
  }

  get #moment(): CommandContext {
    const limits = { fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: IDLE_MS };
    return { now: this.#clock.wall(), salt: () => "5a17".repeat(4), ...limits };
  }
}
