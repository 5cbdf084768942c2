import type { Admission } from "../../../src/node/clients.ts";
import type { ClientEntry } from "../../../src/service.ts";
import type { SessionWaiters, SimulatedClient } from "./clients.ts";
import type { Holder } from "./ledger.ts";
import { Socket, type SocketOwner } from "./socket.ts";
import type { World } from "./world.ts";

interface Asked {
  readonly tag: string;
  readonly type: "claim" | "steal" | "enqueue" | "wait" | "release" | "renew" | "other";
  readonly key: string;
  readonly text: string;
  readonly leaseSeconds: number;
  /** Of the hold that it is about. */
  readonly fence: string;
  /** By the clock of the process. */
  askedAt: number;
  /** How often it was sent. */
  times: number;
  /** When it was released, its client could have relied on the hold until then. */
  readonly until: number;
}

interface Held {
  readonly key: string;
  readonly token: string;
  readonly isPlace: boolean;
  readonly leaseSeconds: number;
}

const ASK_TO_RESUME = "@r session\n_\nresume\n";

/** `untagged`: one request after the other, sent ahead. `resumable`: takes its session up after every loss. */
export type Manner = "untagged" | "tagged" | "resumable";

const FAULT = 1012;
const GONE = 4410;
const DONE = 1000;

/** A client of the wire protocol that does as it likes, within what the protocol asks of clients. */
export class SocketClient implements SimulatedClient, SocketOwner, Holder {
  readonly name: string;
  awayUntil = Number.POSITIVE_INFINITY;
  readonly #world: World;
  readonly #keys: readonly string[];
  readonly #manner: Manner;
  readonly #isAdmin: boolean;
  #socket: Socket | undefined;
  #isConnecting = false;
  #sessions = 0;
  #session = "";
  #credential: { readonly session: string; readonly secret: string } | undefined;
  #lastTag = 0;
  /** Requests without an answer, by tag, oldest first. */
  readonly #asked = new Map<string, Asked>();
  readonly #held = new Map<string, Held>();
  readonly #places = new Set<string>();
  /** It has ended its input on the current socket. */
  #isEnding = false;
  #isLeaving = false;
  #hasLeft = false;

  constructor(world: World, name: string, keys: readonly string[], manner: Manner) {
    this.#world = world;
    this.name = name;
    this.#keys = keys;
    this.#manner = manner;
    this.#isAdmin = world.schedule.happens(0.2);
  }

  get unanswered(): readonly string[] {
    const asked = [...this.#asked.values()].map(({ text }) => `${this.name} ${JSON.stringify(text)}`);
    return this.#isLeaving && !this.#hasLeft ? [...asked, `${this.name} leaves`] : asked;
  }

  get waiters(): readonly SessionWaiters[] {
    if (this.#hasLeft) return [];
    const claims = [...this.#asked.values()].filter(({ type }) => type === "claim" || type === "enqueue");
    return [{ session: this.#session, count: claims.length + this.#places.size }];
  }

  act(): void {
    const { schedule } = this.#world;
    if (this.#hasLeft || this.#isLeaving || this.#isEnding) return;
    const socket = this.#socket;
    if (!socket) {
      this.#connect();
      return;
    }
    const held = schedule.pick([...this.#held.values()]);
    const key = schedule.pick(this.#keys) as string;
    const isPool = key.startsWith("pool");
    const wait = schedule.pick([0, 0, 1, 3, 20, 900]) as number;
    const lease = schedule.pick([1, 2, 5, 10, 60]) as number;
    const action = schedule.chance();
    if (held && action < 0.4) this.#give(held);
    else if (held && action < 0.52) this.#renew(held, lease);
    else if (action < 0.72 && this.#asked.size < 4)
      this.#ask("claim", key, isPool ? `sl\n${key}\n${wait} 2 ${lease}\n` : `l\n${key}\n${wait} ${lease}\n`, { lease });
    else if (action < 0.8 && !this.#places.has(key) && this.#manner !== "untagged") {
      this.#places.add(key);
      this.#ask("enqueue", key, isPool ? `se\n${key}\n2 ${lease}\n` : `e\n${key}\n${lease}\n`, { lease });
    } else if (action < 0.87 && this.#manner !== "untagged") this.#cancel();
    else if (action < 0.89 && this.#isAdmin && !isPool)
      this.#ask("steal", key, `steal\n${key}\n1 ${lease}\n`, { lease });
    else if (action < 0.93) this.#cut(socket);
    else if (action < 0.95) this.#shut(socket, 4412);
    else if (action < 0.97) this.#shut(socket, 1000);
    else if (action < 0.98) this.#endInput(socket);
    else this.#ask("other", key, "ping\n_\n_\n");
  }

  leave(): void {
    this.#isLeaving = true;
    if (this.#socket) this.#finish();
    else this.#connect();
  }

  vanish(): void {
    this.#world.tell(`${this.name} vanishes`);
    this.#hasLeft = true;
    const socket = this.#socket;
    this.#forget();
    this.#socket = undefined;
    socket?.cut();
  }

  heard(socket: Socket, line: string): void {
    if (socket !== this.#socket) return;
    this.#world.tell(`${this.name} hears ${line}`);
    // Until it is answered, nothing says that its session is still there.
    this.awayUntil = Number.POSITIVE_INFINITY;
    const [first = "", ...rest] = line.split(" ");
    if (first === "!") this.#pushed(rest);
    else if (first === "@r") this.#resumable(rest);
    else if (first === "@p" || first === "@w") return;
    else if (first.startsWith("@")) this.#answered(first.slice(1), rest);
    else {
      const [oldest] = this.#asked.keys();
      if (oldest === undefined) this.#world.fail(`${this.name} hears an answer to nothing: ${line}`);
      else this.#answered(oldest, [first, ...rest]);
    }
  }

  ended(socket: Socket, code: number): void {
    if (socket !== this.#socket) return;
    this.#world.tell(`${this.name} loses its socket: ${code}`);
    this.#lostSocket({ isFault: code === FAULT || code === 1006, isGone: code === GONE || code === DONE });
  }

  // Connections.

  #connect(): void {
    if (this.#isConnecting || this.#hasLeft || this.#socket) return;
    this.#isConnecting = true;
    const { schedule } = this.#world;
    schedule.after(schedule.between(1, 200), () => {
      if (this.#hasLeft) return;
      if (this.#credential) this.#takeUp(this.#credential);
      else this.#begin();
    });
  }

  #begin(): void {
    const { host } = this.#world;
    if (!host) {
      this.#again();
      return;
    }
    this.#sessions += 1;
    const admission = host.sessions.admit(this.#entry);
    this.#session = this.#world.lastRandom;
    if (typeof admission === "string") {
      this.#again();
      return;
    }
    this.#open(admission);
  }

  #takeUp(credential: { readonly session: string; readonly secret: string }): void {
    this.#world.call(
      (_, host) => host.sessions.resume(this.#entry, credential),
      (end) => {
        if (this.#hasLeft) {
          if (typeof end === "object" && typeof end.result === "object") end.result.abandon();
        } else if (end === "lost" || end === "rejected") this.#again();
        else if (end.result === "session_gone") {
          this.#world.tell(`${this.name} is told that its session is gone`);
          if (this.awayUntil > this.#world.schedule.now)
            this.#world.fail(`the session of ${this.name} is gone too soon`);
          this.#forget();
          this.#again();
        } else if (typeof end.result === "string") this.#again();
        else this.#open(end.result);
      },
    );
  }

  #again(): void {
    this.#isConnecting = false;
    this.#world.schedule.after(this.#world.schedule.between(10, 1_000), () => this.#connect());
  }

  #open(admission: Admission): void {
    const { schedule, host } = this.#world;
    const attach = () => {
      // The process that let it in has died.
      if (!this.#world.runs(host)) {
        this.#again();
        return;
      }
      if (this.#hasLeft || schedule.happens(0.03)) {
        admission.abandon();
        return this.#again();
      }
      this.#isConnecting = false;
      this.#attach(admission);
    };
    if (schedule.happens(0.7)) attach();
    else schedule.after(schedule.between(1, 300), attach);
  }

  #attach(admission: Admission): void {
    const socket = new Socket(this.#world, this);
    this.#socket = socket;
    this.#isEnding = false;
    this.#world.tell(`${this.name} is connected`);
    socket.attached(admission.attach(socket));
    if (this.#manner === "resumable") socket.say(ASK_TO_RESUME);
    if (this.#manner !== "untagged") socket.say("@w watch\n_\nlost\n");
    for (const asked of this.#asked.values()) {
      asked.askedAt = Math.min(asked.askedAt, this.#world.now);
      asked.times += 1;
      socket.say(asked.text);
    }
    if (this.#isLeaving) this.#finish();
  }

  get #entry(): ClientEntry {
    return {
      protocol: "dflockd",
      transport: "ws",
      address: "192.0.2.1",
      isAuthenticated: false,
      rights: { scope: undefined, isAdmin: this.#isAdmin },
      label: undefined,
      hasWindow: false,
    };
  }

  #cut(socket: Socket): void {
    this.#world.tell(`${this.name} is cut off`);
    socket.cut();
    this.#lostSocket({ isFault: false, isGone: false });
  }

  #shut(socket: Socket, code: number): void {
    this.#world.tell(`${this.name} closes with ${code}`);
    const isGone = code === 1000;
    // It relies on nothing from here on.
    if (isGone) this.#forget();
    socket.shut(code);
    this.#lostSocket({ isFault: false, isGone });
  }

  /** What is granted from here on ends with the connection. */
  #endInput(socket: Socket): void {
    this.#world.tell(`${this.name} ends its input`);
    this.#isEnding = true;
    this.#dropHolds();
    socket.endInput();
  }

  #lostSocket({ isFault, isGone }: { readonly isFault: boolean; readonly isGone: boolean }): void {
    this.#socket = undefined;
    const wasEnding = this.#isEnding;
    this.#isEnding = false;
    const mayResume = this.#credential !== undefined && !isGone && !wasEnding;
    if (mayResume)
      this.awayUntil = Math.min(this.awayUntil, this.#world.schedule.now + this.#world.config.resumeGraceMs);
    // A fault of the service costs nobody a lock: whoever has its token has it until its lease ends.
    else if (isFault && !wasEnding && this.#manner !== "resumable") this.#forget({ keepsHolds: true });
    else this.#forget();
    if (this.#isLeaving && (!mayResume || this.#isDone)) {
      // What it holds from before a fault ends with its lease.
      this.#forget();
      this.#hasLeft = true;
    } else this.#again();
  }

  #forget({ keepsHolds } = { keepsHolds: false }): void {
    for (const asked of this.#asked.values()) this.#isOver(asked);
    this.#asked.clear();
    this.#places.clear();
    this.#credential = undefined;
    this.awayUntil = Number.POSITIVE_INFINITY;
    if (!keepsHolds) this.#dropHolds();
  }

  #dropHolds(): void {
    for (const { key, token } of this.#held.values()) this.#world.ledger.gaveUp(key, token.slice(0, 16));
    this.#held.clear();
  }

  get #isDone(): boolean {
    return this.#asked.size === 0 && this.#held.size === 0;
  }

  #finish(): void {
    for (const held of [...this.#held.values()]) this.#give(held);
    if (this.#isDone && this.#socket) this.#shut(this.#socket, 1000);
  }

  // Requests.

  #give(held: Held): void {
    this.#held.delete(held.token);
    const fence = held.token.slice(0, 16);
    const until = this.#world.ledger.gaveUp(held.key, fence);
    this.#ask("release", held.key, `r\n${held.key}\n${held.token}\n`, { fence, until });
  }

  #renew({ key, token }: Held, lease: number): void {
    const fence = token.slice(0, 16);
    if (
      [...this.#asked.values()].some(({ type, ...asked }) => asked.key === key && (type === "renew" || type === "wait"))
    )
      return;
    this.#world.ledger.renews(key, fence, lease);
    this.#ask("renew", key, `n\n${key}\n${token} ${lease}\n`, { fence, lease });
  }

  #wait(key: string): void {
    // It starts the lease of the grant again, which may be shorter than that of a renewal.
    const { ledger } = this.#world;
    for (const held of this.#held.values()) {
      if (!held.isPlace || held.key !== key) continue;
      const fence = held.token.slice(0, 16);
      const isRenewed = [...this.#asked.values()].some((asked) => asked.type === "renew" && asked.fence === fence);
      if (isRenewed) ledger.gaveUp(key, fence);
      else ledger.renews(key, fence, held.leaseSeconds);
    }
    this.#ask("wait", key, `w\n${key}\n${this.#world.schedule.pick([0, 1, 20, 900])}\n`);
  }

  #cancel(): void {
    const asked = this.#world.schedule.pick([...this.#asked.values()]);
    if (!asked) return;
    // Cancelling a `wait` gives up everything that its `enqueue` has led to.
    for (const { key, token, isPlace } of this.#held.values()) {
      if (!isPlace || asked.type !== "wait" || asked.key !== key) continue;
      this.#held.delete(token);
      this.#world.ledger.gaveUp(key, token.slice(0, 16));
    }
    this.#ask("other", asked.key, `cancel\n_\n${asked.tag}\n`);
  }

  #ask(
    type: Asked["type"],
    key: string,
    text: string,
    { lease = 0, fence = "", until = 0 }: { lease?: number; fence?: string; until?: number } = {},
  ): void {
    this.#lastTag += 1;
    const tag = String(this.#lastTag);
    const words = this.#manner === "untagged" ? text : `@${tag} ${text}`;
    const askedAt = this.#world.now;
    const asked: Asked = { tag, type, key, text: words, leaseSeconds: lease, fence, askedAt, times: 1, until };
    this.#asked.set(tag, asked);
    if (type === "steal") this.#world.ledger.steals(key, asked);
    this.#world.tell(`${this.name} asks ${JSON.stringify(words)}`);
    this.#socket?.say(words);
  }

  /** Nothing more happens because of it. */
  #isOver(asked: Asked): void {
    if (asked.type !== "steal") return;
    // It may still arrive, or be carried out.
    this.#world.schedule.after(10_000, () => this.#world.ledger.stole(asked.key, asked));
  }

  #resumable([, credential = ""]: readonly string[]): void {
    const [session = "", secret = ""] = credential.split(".");
    if (session === "") {
      const { schedule, troubles } = this.#world;
      const socket = this.#socket;
      if (troubles === 0) this.#world.fail(`${this.name} may not resume`);
      // Nothing could be stored.
      schedule.after(1_000, () => {
        if (this.#socket === socket) socket?.say(ASK_TO_RESUME);
      });
      return;
    }
    this.#credential = { session, secret };
    if (!this.#isEnding) this.#world.ledger.resumable(session, secret);
  }

  #pushed([what, key = "", token = ""]: readonly string[]): void {
    if (what === "present") this.#socket?.say("@p ping\n_\n_\n");
    if (what !== "lost") return;
    this.#held.delete(token);
    const until = this.#world.ledger.gaveUp(key, token.slice(0, 16));
    this.#world.ledger.denied(this.name, key, token.slice(0, 16), until);
  }

  #answered(tag: string, [status = "", token = "", lease = ""]: readonly string[]): void {
    const asked = this.#asked.get(tag);
    if (!asked) return;
    this.#asked.delete(tag);
    const { type, key, fence } = asked;
    const { ledger } = this.#world;
    if (status === "ok" && type === "renew") ledger.renewed(key, fence, Number(token), asked.askedAt);
    else if (type === "renew" && status === "error") {
      ledger.denied(this.name, key, fence, ledger.gaveUp(key, fence));
      for (const held of this.#held.values())
        if (held.key === key && held.token.startsWith(fence)) this.#held.delete(held.token);
    } else if (type === "release" && status === "ok") ledger.released(key, fence);
    else if (type === "release" && asked.times === 1 && status === "error")
      ledger.denied(this.name, key, fence, asked.until);
    else if (token !== "" && (status === "ok" || status === "acquired")) this.#granted(asked, token, Number(lease));
    this.#isOver(asked);
    if (type === "enqueue" && (status === "queued" || status === "error_already_enqueued")) {
      ledger.queued(this.name, key);
      this.#places.add(key);
      this.#soon(() => {
        if (this.#places.has(key)) this.#wait(key);
      });
    } else if (type === "enqueue" || type === "wait") this.#places.delete(key);
    if (this.#isLeaving) this.#soon(() => this.#finish());
  }

  #granted({ tag, type, key, askedAt, times }: Asked, token: string, leaseSeconds: number): void {
    const fence = token.slice(0, 16);
    if (this.#isEnding) return;
    const isPlace = type === "enqueue" || type === "wait";
    const claim = `${this.name}${this.#sessions}.${isPlace ? `place at ${key}` : tag}`;
    this.#held.set(token, { key, token, isPlace, leaseSeconds });
    this.#world.ledger.granted(this, { claim, key, fence, leaseSeconds, askedAt, isRepeated: times > 1 });
  }

  /** It does something of its own, if it is still connected then. */
  #soon(act: () => void): void {
    const socket = this.#socket;
    this.#world.schedule.after(this.#world.schedule.between(1, 20), () => {
      if (socket !== undefined && socket === this.#socket && !this.#hasLeft) act();
    });
  }
}
