/** Sessions of the godistlock protocol and the keys that they use, in memory; nothing happens until `settle`. */
import type { CommandContext, KeyEvent, NoticeAnswer } from "../../src/core/engine/index.ts";
import type { SessionConfig } from "../../src/core/session/context.ts";
import type { Effect } from "../../src/core/session/effects.ts";
import type { KeyCall, KeyOutcome } from "../../src/core/session/key-calls.ts";
import { ALL_BUT_ADMIN, type Rights } from "../../src/core/session/rights.ts";
import type { SocketState } from "../../src/core/session/socket-conversation.ts";
import { SocketSession } from "../../src/core/session/socket-session.ts";
import { type Call, StoredEngine } from "../engine/stored-engine.ts";
import { CONFIG, origin, Stored } from "./stored.ts";

type CallEffect = Extract<Effect, { type: "callKey" }>;

const START = 1_700_000_000_000;
const RULES = { fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: 60_000 };
/** Stands for the other deployments: what they are asked is up to the test. */
const GROUP: SessionConfig["relay"] = { id: "s0", token: "relay-token-0001", peers: [], need: 1 };

interface Options {
  readonly config?: Partial<SessionConfig>;
  readonly rules?: Partial<typeof RULES>;
  readonly isInGroup?: boolean;
}

export class Deployment {
  now = START;
  /** Whether a majority of the group agrees. */
  hasMajority = true;
  /** Whether it agrees to keep a lock for longer. */
  mayProlong = true;
  /** Keys carry out calls of these types, and their answers stay on the way until the next `settle`. */
  readonly slow = new Set<KeyCall["type"]>();
  /** Keys that cannot be reached. */
  readonly unreachable = new Set<string>();
  readonly config: SessionConfig;
  readonly #rules: typeof RULES;
  readonly #keys = new Map<string, StoredEngine>();
  readonly #clients = new Map<string, Client>();
  readonly #work: (() => void)[] = [];
  #slowWork: (() => void)[] = [];
  #salts = 0;
  #randoms = 0;

  constructor({ config, rules, isInGroup = false }: Options = {}) {
    this.config = { ...CONFIG, relay: isInGroup ? GROUP : undefined, ...config };
    this.#rules = { ...RULES, ...rules };
  }

  client(name: string, greeting?: ConstructorParameters<typeof Client>[2]): Client {
    const client = new Client(this, name, greeting);
    this.#clients.set(name, client);
    return client;
  }

  /** Lets everything happen that is under way, except answers that are slow. */
  settle(): void {
    const late = this.#slowWork;
    this.#slowWork = [];
    this.#work.push(...late);
    for (let next = this.#work.shift(); next; next = this.#work.shift()) next();
  }

  pass(ms: number): void {
    this.now += ms;
    for (const name of this.#keys.keys()) this.run(name, { do: "tick" });
    for (const client of this.#clients.values()) client.tick();
    this.settle();
  }

  /** 32 hex digits, others each time from the first on. */
  random(): string {
    this.#randoms += 1;
    return this.#randoms.toString(16).padStart(4, "0").repeat(8);
  }

  plan(work: () => void): void {
    this.#work.push(work);
  }

  call({ key, ask }: CallEffect, done: (outcome: KeyOutcome) => void, failed: () => void): void {
    this.plan(() => {
      if (this.unreachable.has(key)) {
        failed();
        return;
      }
      const outcome = this.#perform(key, ask);
      if (this.slow.has(ask.type)) this.#slowWork.push(() => done(outcome));
      else this.plan(() => done(outcome));
    });
  }

  run(name: string, call: Call): unknown {
    const key = this.#key(name);
    const { outcome, events } = key.run(call, this.#context());
    for (const event of events) this.plan(() => this.#tell(name, event));
    return outcome;
  }

  /** The session that holds the lock. */
  holder(name: string): string | undefined {
    const [holder] = this.#key(name).engine.view({ detail: true }).holders;
    return holder?.session;
  }

  waiters(name: string): number {
    return this.#key(name).engine.view().waiters;
  }

  /** How much longer the lock is held. */
  leaseMs(name: string): number {
    const held = [...this.#key(name).rows.slots.values()].find(({ isHeld }) => isHeld);
    return held ? held.expiresAt - this.now : 0;
  }

  #key(name: string): StoredEngine {
    const key = this.#keys.get(name) ?? new StoredEngine(1, this.now);
    this.#keys.set(name, key);
    return key;
  }

  #perform(key: string, ask: KeyCall): KeyOutcome {
    if (ask.type === "prolong") {
      const { token, session, leaseMs } = ask;
      if (!this.run(key, { do: "agreedHold", token, session })) return { status: "not_held" };
      if (!this.mayProlong) return { status: "kept" };
      const isLonger = this.run(key, { do: "prolong", token, leaseMs, askedAt: this.now });
      return { status: isLonger ? "prolonged" : "not_held" };
    }
    if (ask.type === "fenceOfHolder") {
      const fence = this.run(key, { do: "fenceOfHolder" }) as bigint | undefined;
      return fence === undefined ? { status: "free" } : { status: "held", fence };
    }
    const { type, ...rest } = ask;
    return this.run(key, { do: type, ...rest } as Call) as KeyOutcome;
  }

  #tell(key: string, event: KeyEvent): void {
    const { type, session, ...rest } = event;
    const client = this.#clients.get(session);
    if (event.type === "lost") client?.lose(key, event.token, event.reason);
    else if (event.type === "notice") {
      const { request, offer } = event;
      const answered = (answer: NoticeAnswer) =>
        this.plan(() => this.run(key, { do: "answer", request, answer, offered: offer?.token }));
      if (client) client.notice({ key, ...rest } as Parameters<Client["notice"]>[0], answered);
      else answered("gone");
    } else if (event.type === "round") {
      const { request, mark } = event;
      if (!this.hasMajority) {
        const end = { status: "refused", fence: 7n, pauseMs: 100 } as const;
        this.run(key, { do: "failRound", of: { request, mark }, end });
        return;
      }
      const fence = this.run(key, { do: "fenceRound", of: { request, mark }, floor: 0n }) as bigint | undefined;
      if (fence === undefined) return;
      this.run(key, { do: "agreeRound", of: { request, mark: fence.toString(16).padStart(16, "0") } });
    }
  }

  #context(): CommandContext {
    const salt = () => {
      this.#salts += 1;
      return this.#salts.toString(16).padStart(16, "0");
    };
    return { now: this.now, salt, ...this.#rules };
  }
}

interface Greeting {
  readonly rights?: Rights;
  /** False if the client still has to say who it is. */
  readonly isAuthenticated?: boolean;
}

/** A client on a connection of its own, and the session at the other end. */
export class Client {
  readonly #deployment: Deployment;
  readonly #name: string;
  readonly #stored = new Stored();
  #session: SocketSession;
  #heard: string[] = [];
  readonly #notices: ((answer: NoticeAnswer) => void)[] = [];
  /** Secrets that wait to be compared. */
  readonly #secrets: string[] = [];
  /** The code with which the server has closed the connection. */
  closedWith: number | undefined;
  #state: SocketState | undefined;

  constructor(deployment: Deployment, name: string, greeting: Greeting = {}) {
    this.#deployment = deployment;
    this.#name = name;
    this.#session = this.#start();
    const { rights = ALL_BUT_ADMIN, isAuthenticated = true } = greeting;
    this.#run((session) =>
      session.opened({ protocol: "godistlock", isAuthenticated, rights, resumableFrom: undefined }),
    );
  }

  /** What it has heard since it was last asked. */
  get heard(): string[] {
    const heard = this.#heard;
    this.#heard = [];
    return heard;
  }

  /** Sends whole lines, and lets everything happen that follows. */
  say(...lines: string[]): string[] {
    return this.send(lines.map((line) => `${line}\n`).join(""));
  }

  send(text: string | Uint8Array): string[] {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    this.#run((session) => session.received(bytes));
    this.#deployment.settle();
    return this.heard;
  }

  /** The client is done sending, and reads on. */
  endInput(): string[] {
    return this.send(new Uint8Array(0));
  }

  /** Answers how the secrets compare that were sent. */
  authenticate(isRight: (secret: string) => boolean): string[] {
    for (const secret of this.#secrets.splice(0))
      this.#run((session) => session.authenticated(isRight(secret) ? { type: "token" } : undefined));
    this.#deployment.settle();
    return this.heard;
  }

  /** Numbers for `STATS`. */
  report(id: string, counts: Record<string, number> | undefined): void {
    const outcome = counts ? ({ status: "ok", document: JSON.stringify(counts) } as const) : undefined;
    this.#run((session) => session.requests.reported(id, outcome ?? { status: "unavailable" }));
  }

  onReport: (id: string) => void = () => {};

  hangUp(): void {
    this.#run((session) => session.end());
    this.#deployment.settle();
  }

  /** The session's object is evicted while nothing is under way, and started again with the same connection. */
  sleep(): void {
    if (this.#session.isBusy || this.#session.context.timers.next !== Number.POSITIVE_INFINITY)
      throw new Error("an object that is busy does not sleep");
    const state = structuredClone(this.#state);
    if (!state) throw new Error("nothing was kept with the socket");
    this.#session = this.#start();
    this.#run((session) => session.restored({ resumableFrom: undefined }, state));
  }

  tick(): void {
    this.#run((session) => {
      session.tick(this.#deployment.now);
      session.conversation?.tick();
    });
  }

  lose(key: string, token: string, reason: "expired" | "released" | "stolen"): void {
    this.#run((session) => session.lose({ key, token, reason }));
  }

  notice(notice: Parameters<SocketSession["notice"]>[1], answered: (answer: NoticeAnswer) => void): void {
    const number = this.#notices.push(answered) - 1;
    this.#run((session) => session.notice(number, notice));
  }

  #start(): SocketSession {
    const { config, now } = this.#deployment;
    this.#stored.keepKeysWithSocket();
    const random = () => this.#deployment.random();
    return new SocketSession(origin(this.#stored, { session: this.#name, config, random, now }));
  }

  #run(command: (session: SocketSession) => void): void {
    const { context } = this.#session;
    context.now = this.#deployment.now;
    command(this.#session);
    for (const effect of context.takeEffects()) if (!this.#stored.take(effect)) this.#carryOut(effect, context);
    if (this.#session.conversation) this.#state = this.#session.conversation.state;
  }

  #carryOut(effect: Effect, context: SocketSession["context"]): void {
    switch (effect.type) {
      case "callKey":
        this.#deployment.call(
          effect,
          (outcome) => this.#run(() => context.keyAnswered(effect.call, outcome)),
          () => this.#run(() => context.keyFailed(effect.call, "unreachable")),
        );
        break;
      case "send":
        this.#heard.push(effect.line.trimEnd());
        break;
      case "close":
        this.closedWith = effect.code;
        break;
      case "answerNotice":
        this.#notices[effect.notice]?.(effect.answer);
        break;
      case "authenticate":
        this.#secrets.push(new TextDecoder().decode(effect.secret));
        break;
      case "report":
        this.onReport(effect.id);
    }
  }
}
