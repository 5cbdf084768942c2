import { SimulatedSocket, type SocketClient } from "./socket.ts";
import { SocketHost } from "./socket-host.ts";
import type { World } from "./world.ts";

interface Asked {
  readonly tag: string;
  readonly type: "claim" | "enqueue" | "wait" | "release" | "renew" | "other";
  readonly key: string;
  readonly text: string;
  readonly token?: string;
}

interface Held {
  readonly key: string;
  readonly token: string;
  /** It is kept and renewed until somebody else wants it. */
  readonly isSticky: boolean;
  /** It came by `enqueue`. */
  readonly isPlace: boolean;
}

/** How often a client renews what it keeps. */
const RENEWED_EVERY_MS = 4_000;
const STICKY_LEASE_S = 60;
/** A connection this old is as good as any. */
const OPEN_FOR_MS = 12_000;

/** A client of the wire protocol that does as it likes, within what the protocol asks of clients. */
export class WireClient implements SocketClient {
  readonly name: string;
  readonly #world: World;
  readonly #keys: readonly string[];
  readonly #isResumable: boolean;
  /** Half of its claims are for locks that it keeps until somebody else wants them. */
  readonly #keeps: boolean;
  #session: SocketHost | undefined;
  #secret: string | undefined;
  #socket: SimulatedSocket | undefined;
  #isOpen = false;
  #openedAt = 0;
  #sessions = 0;
  #lastTag = 0;
  /** Requests without an answer, by tag, oldest first. */
  readonly #asked = new Map<string, Asked>();
  readonly #held = new Map<string, Held>();
  readonly #places = new Set<string>();
  #isLeaving = false;
  #hasLeft = false;

  constructor(world: World, name: string, keys: readonly string[], isResumable: boolean) {
    this.#world = world;
    this.name = name;
    this.#keys = keys;
    this.#isResumable = isResumable;
    this.#keeps = world.schedule.happens(0.35);
  }

  /** Requests that are still to be answered. */
  get unanswered(): readonly string[] {
    return [...this.#asked.values()].map(({ text }) => `${this.name} ${JSON.stringify(text)}`);
  }

  /** The session it has, and for how many locks it waits there. */
  get place(): { readonly session: string; readonly count: number } | undefined {
    if (!this.#session || !this.#isOpen) return undefined;
    const claims = [...this.#asked.values()].filter(({ type }) => type === "claim");
    return { session: this.#session.name, count: claims.length + this.#places.size };
  }

  /** What it has kept for itself for a while, by key. */
  get kept(): readonly Held[] {
    if (!this.#isOpen || this.#world.schedule.now < this.#openedAt + OPEN_FOR_MS) return [];
    return [...this.#held.values()].filter(({ isSticky }) => isSticky);
  }

  believesIn(key: string, fence: string): boolean {
    // Its connection has ended, which it will hear: that ends its holds.
    if (this.#session?.stored.get("ending")) return false;
    return [...this.#held.values()].some((held) => held.key === key && held.token.startsWith(fence));
  }

  connect(): void {
    if (this.#socket || this.#hasLeft) return;
    if (!this.#session || this.#secret === undefined) this.#begin();
    this.#socket = new SimulatedSocket(this.#world, this);
    if (this.#session) this.#socket.connect(this.#session, this.#secret);
  }

  opened(socket: SimulatedSocket): void {
    if (socket !== this.#socket) return;
    this.#isOpen = true;
    this.#openedAt = this.#world.schedule.now;
    if (this.#isResumable) socket.say("@r session\n_\nresume\n");
    socket.say("@w watch\n_\nlost\n");
    for (const { text } of this.#asked.values()) socket.say(text);
    for (const held of this.#held.values()) if (held.isSticky) this.#renew(held);
    if (this.#isLeaving) this.#finish();
  }

  heard(socket: SimulatedSocket, line: string): void {
    if (socket !== this.#socket) return;
    this.#world.tell(`${this.name} hears ${line}`);
    const [first = "", ...rest] = line.split(" ");
    if (first === "!") this.#pushed(rest);
    else if (first === "@r") this.#secret = rest[1]?.split(".")[1];
    else this.#answered(first.slice(1), rest);
  }

  ended(socket: SimulatedSocket, reason: string): void {
    if (socket !== this.#socket) return;
    this.#world.tell(`${this.name} loses its socket: ${reason}`);
    this.#socket = undefined;
    this.#isOpen = false;
    const isGone = this.#secret === undefined || reason === "session_gone" || reason === "4410";
    if (isGone) this.#forget();
    if (this.#isLeaving && (isGone || this.#isDone)) {
      this.#hasLeft = true;
      this.#world.tell(`${this.name} has left`);
    } else this.#world.schedule.after(this.#world.schedule.between(10, 3_000), () => this.connect());
  }

  /** Does something. */
  act(): void {
    const { schedule } = this.#world;
    if (!this.#isOpen || this.#isLeaving) return;
    const held = schedule.pick([...this.#held.values()].filter(({ isSticky }) => !isSticky || schedule.happens(0.1)));
    const key = schedule.pick(this.#keys) as string;
    const isPool = key.startsWith("pool");
    const wait = schedule.pick([0, 0, 1, 3, 20, 900]) as number;
    const lease = schedule.pick([1, 2, 5, 10, 60]) as number;
    const action = schedule.chance();
    if (held && action < 0.45) this.#give(held);
    else if (held && action < 0.55) this.#renew(held, lease);
    else if (action < 0.72 && this.#places.size < 3)
      this.#claim(key, isPool ? `sl\n${key}\n${wait} 2` : `l\n${key}\n${wait}`, lease);
    else if (action < 0.8 && !this.#places.has(key)) {
      this.#places.add(key);
      this.#ask("enqueue", key, isPool ? `se\n${key}\n2 ${lease}\n` : `e\n${key}\n${lease}\n`);
    } else if (action < 0.88) this.#cancel();
    else if (action < 0.9 && !isPool) this.#claim(key, `steal\n${key}\n1`, lease);
    else if (action < 0.96) this.#socket?.cut();
    else if (action < 0.98) this.#close(4412);
    else this.#close(1000);
  }

  /** Gives back everything, waits for all answers, and leaves. */
  leave(): void {
    this.#isLeaving = true;
    if (this.#isOpen) this.#finish();
    else this.connect();
  }

  /** Goes without a word, for good. */
  vanish(): void {
    this.#world.tell(`${this.name} vanishes`);
    this.#hasLeft = true;
    this.#socket?.cut();
    this.#socket = undefined;
    this.#isOpen = false;
    this.#asked.clear();
  }

  get #isDone(): boolean {
    return this.#asked.size === 0 && this.#held.size === 0;
  }

  #begin(): void {
    this.#forget();
    this.#sessions += 1;
    this.#session = new SocketHost(this.#world, `${this.name}${this.#sessions}`);
  }

  #forget(): void {
    this.#asked.clear();
    this.#held.clear();
    this.#places.clear();
    this.#secret = undefined;
    this.#session = undefined;
  }

  #finish(): void {
    for (const held of [...this.#held.values()]) this.#give(held);
    if (this.#isDone) this.#close(1000);
  }

  #claim(key: string, text: string, lease: number): void {
    const isSticky = this.#keeps && this.#world.schedule.happens(0.5);
    this.#ask("claim", key, isSticky ? `${text} ${STICKY_LEASE_S} wanted\n` : `${text} ${lease}\n`);
  }

  #renew({ key, token }: Held, lease = STICKY_LEASE_S): void {
    this.#ask("renew", key, `n\n${key}\n${token} ${lease}\n`, token);
  }

  #keep(held: Held): void {
    this.#world.schedule.after(RENEWED_EVERY_MS, () => {
      if (this.#hasLeft || this.#held.get(held.token) !== held) return;
      if (this.#isOpen) this.#renew(held);
      this.#keep(held);
    });
  }

  /** Somebody else wants it: it is given back when whatever uses it has ended. */
  #yield(token: string): void {
    this.#world.schedule.after(this.#world.schedule.between(1, 500), () => {
      const held = this.#held.get(token);
      if (!held?.isSticky || this.#hasLeft) return;
      if (this.#isOpen) this.#give(held);
      else this.#yield(token);
    });
  }

  #give(held: Held): void {
    // From here on the client no longer believes in it.
    this.#held.delete(held.token);
    this.#ask("release", held.key, `r\n${held.key}\n${held.token}\n`, held.token);
  }

  /** Waits in the place that it has, and may change its mind while the request is on its way. */
  #wait(key: string): void {
    const { schedule } = this.#world;
    const asked = this.#ask("wait", key, `w\n${key}\n${schedule.pick([1, 20, 900])}\n`);
    if (schedule.happens(0.3))
      schedule.after(schedule.between(1, 30), () => {
        if (this.#isOpen && this.#asked.has(asked.tag)) this.#cancel(asked);
      });
  }

  #cancel(asked = this.#world.schedule.pick([...this.#asked.values()])): void {
    // Who cancels a `wait` gives up everything that its `enqueue` has led to.
    for (const { key, token, isPlace } of this.#held.values())
      if (isPlace && asked?.type === "wait" && asked.key === key) this.#held.delete(token);
    if (asked) this.#ask("other", asked.key, `cancel\n_\n${asked.tag}\n`);
  }

  #close(code: number): void {
    const socket = this.#socket;
    if (!socket) return;
    this.#world.tell(`${this.name} closes with ${code}`);
    socket.close(code);
    this.ended(socket, code === 1000 ? "4410" : String(code));
  }

  #ask(type: Asked["type"], key: string, text: string, token?: string): Asked {
    this.#lastTag += 1;
    const tag = String(this.#lastTag);
    const asked = { tag, type, key, text: `@${tag} ${text}`, ...(token !== undefined && { token }) };
    this.#asked.set(tag, asked);
    if (text.endsWith(" wanted\n")) this.#hasAsked = true;
    this.#world.tell(`${this.name} asks ${JSON.stringify(asked.text)}`);
    this.#socket?.say(asked.text);
    return asked;
  }

  #pushed([what, , token = ""]: readonly string[]): void {
    if (what === "lost") this.#held.delete(token);
    else if (what === "wanted") {
      if (!this.#hasAsked) this.#world.checks.fail(`${this.name} is told what it did not ask for`);
      this.#yield(token);
    } else if (what === "present") this.#socket?.say("@p ping\n_\n_\n");
  }

  /** It has ever asked to be told that somebody waits. */
  #hasAsked = false;

  #answered(tag: string, [status = "", token = "", ...more]: readonly string[]): void {
    const asked = this.#asked.get(tag);
    if (!asked) return;
    this.#asked.delete(tag);
    const { type, key } = asked;
    const isGrant = (status === "ok" || status === "acquired") && ["claim", "enqueue", "wait"].includes(type);
    if (isGrant) {
      this.#world.checks.granted(
        `${this.#session?.name}.${type === "claim" ? tag : `place at ${key} ${token}`}`,
        key,
        token,
      );
      const held = { key, token, isSticky: asked.text.endsWith(" wanted\n"), isPlace: type !== "claim" };
      this.#held.set(token, held);
      if (held.isSticky) this.#keep(held);
      if (more.includes("wanted")) this.#yield(token);
    }
    if (type === "renew" && more.includes("wanted")) this.#yield(asked.token ?? "");
    if (type === "renew" && status !== "ok") this.#held.delete(asked.token ?? "");
    if (type === "enqueue" && (status === "queued" || status === "error_already_enqueued")) {
      this.#places.add(key);
      this.#wait(key);
    } else if ((type === "enqueue" || type === "wait") && status !== "error") this.#places.delete(key);
    if (this.#isLeaving) this.#finish();
  }
}
