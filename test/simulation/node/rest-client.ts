import type { Outcome } from "../../../src/core/protocols/statuses.ts";
import type { KeyRequest } from "../../../src/core/session/key-calls.ts";
import { httpSessionName } from "../../../src/core/session-names.ts";
import type { SessionWaiters, SimulatedClient } from "./clients.ts";
import type { Holder } from "./ledger.ts";
import type { World } from "./world.ts";

interface Held {
  readonly key: string;
  readonly token: string;
  readonly leaseSeconds: number;
  readonly isPlace: boolean;
}

/** A client of the REST API: some requests at a time, of which it abandons a few. */
export class RestClient implements SimulatedClient, Holder {
  readonly name: string;
  readonly awayUntil = Number.POSITIVE_INFINITY;
  readonly #world: World;
  readonly #keys: readonly string[];
  #id: string | undefined;
  #lastRequest = 0;
  #answeredAt = 0;
  /** Requests without an answer. */
  readonly #asked = new Set<{ readonly what: string; readonly key: string; abort(): void }>();
  readonly #held = new Map<string, Held>();
  readonly #places = new Set<string>();
  /** Holds with a renewal under way, or one of unknown outcome. */
  readonly #renewing = new Set<string>();
  /** It has asked for the end of its session: that may have come, whatever it hears. */
  #isEnding = false;
  #hasLost = false;
  #isLeaving = false;
  #hasLeft = false;

  constructor(world: World, name: string, keys: readonly string[]) {
    this.#world = world;
    this.name = name;
    this.#keys = keys;
  }

  get unanswered(): readonly string[] {
    const asked = [...this.#asked].map(({ what }) => `${this.name} ${what}`);
    return this.#isLeaving && !this.#hasLeft ? [...asked, `${this.name} leaves`] : asked;
  }

  get waiters(): readonly SessionWaiters[] {
    if (this.#id === undefined) return [];
    // What waited when the process died is skipped when its turn comes. A session whose end was refused keeps its places.
    const count = this.#hasLost || this.#isEnding ? Number.POSITIVE_INFINITY : this.#asked.size + this.#places.size;
    return [{ session: httpSessionName(this.#id), count }];
  }

  act(): void {
    const { schedule } = this.#world;
    if (this.#hasLeft) return;
    const id = this.#id;
    if (id === undefined) {
      if (this.#asked.size > 0) return;
      if (this.#isLeaving) this.#hasLeft = true;
      else this.#open();
      return;
    }
    if (this.#isLeaving) {
      this.#finish(id);
      return;
    }
    if (this.#isEnding) {
      if (this.#asked.size === 0) this.#end(id);
      return;
    }
    if (this.#asked.size > 2) return;
    const held = schedule.pick([...this.#held.values()]);
    const key = schedule.pick(this.#keys) as string;
    const limit = key.startsWith("pool") ? 2 : 1;
    const waitSeconds = schedule.pick([0, 2, 20, 900]) as number;
    const leaseSeconds = schedule.pick([1, 5, 10]) as number;
    const place = schedule.pick([...this.#places]);
    const action = schedule.chance();
    if (held && action < 0.4) this.#release(id, held);
    else if (held && action < 0.5) this.#renew(id, held, leaseSeconds);
    else if (place !== undefined && action < 0.7) this.#wait(id, place, waitSeconds);
    else if (action < 0.8) this.#acquire(id, { type: "acquire", key, limit, waitSeconds, leaseSeconds });
    else if (action < 0.9) this.#enqueue(id, { type: "enqueue", key, limit, leaseSeconds });
    else if (action < 0.97) this.#ping(id);
    else this.#end(id);
  }

  leave(): void {
    this.#isLeaving = true;
    this.act();
  }

  vanish(): void {
    this.#world.tell(`${this.name} vanishes`);
    this.#hasLeft = true;
    for (const { abort } of [...this.#asked]) abort();
    this.#asked.clear();
    this.#forget();
  }

  #finish(id: string): void {
    const [held] = this.#held.values();
    if (held) this.#release(id, held);
    else if (![...this.#asked].some(({ what }) => what === "end")) this.#end(id);
  }

  #forget(): void {
    for (const { key, token } of this.#held.values()) this.#world.ledger.gaveUp(key, token.slice(0, 16));
    this.#held.clear();
    this.#places.clear();
    this.#id = undefined;
    this.#isEnding = false;
    this.#hasLost = false;
  }

  #open(): void {
    const asked = this.#asks("open");
    this.#world.call(
      ({ rest }) => rest.open("192.0.2.7", undefined),
      (end) => {
        if (!this.#asked.delete(asked) || typeof end !== "object" || end.result.status !== "opened") return;
        this.#world.ledger.session(httpSessionName(end.result.id), true);
        this.#id = end.result.id;
        this.#answeredAt = this.#world.schedule.now;
      },
    );
  }

  #end(id: string): void {
    const asked = this.#asks("end");
    this.#forget();
    this.#id = id;
    this.#isEnding = true;
    this.#world.call(
      ({ rest }) => rest.end(id),
      (end) => {
        if (!this.#asked.delete(asked)) return;
        this.#world.tell(`${this.name} hears that its session has ended: ${JSON.stringify(end)}`);
        if (typeof end === "object") {
          this.#world.ledger.session(httpSessionName(id), false);
          this.#forget();
        }
      },
    );
  }

  #ping(id: string): void {
    const asked = this.#asks("ping");
    this.#world.call(
      ({ rest }) => rest.ping(id),
      (end) => {
        if (this.#asked.delete(asked) && typeof end === "object" && !end.result) this.#gone(id);
      },
    );
  }

  /** The service says that there is no such session. */
  #gone(id: string): void {
    if (id !== this.#id) return;
    if (this.#isEnding) {
      this.#forget();
      return;
    }
    const { schedule, config } = this.#world;
    // A commit that takes long delays the answer, not the end of the session.
    if (schedule.now < this.#answeredAt + 2 * config.httpSessionIdleMs - 4_000)
      this.#world.fail(`the session of ${this.name} is gone`);
    this.#forget();
  }

  #asks(what: string, key = "", abort = () => {}): { readonly what: string; readonly key: string; abort(): void } {
    const asked = { what, key, abort };
    this.#asked.add(asked);
    this.#world.tell(`${this.name} asks ${what} ${key}`);
    return asked;
  }

  #release(id: string, { key, token }: Held): void {
    this.#held.delete(token);
    const { ledger } = this.#world;
    const fence = token.slice(0, 16);
    const until = ledger.gaveUp(key, fence);
    this.#request(id, { type: "release", key, token }, ({ status }) => {
      if (status === "ok") ledger.released(key, fence);
      else ledger.denied(this.name, key, fence, until);
    });
  }

  #renew(id: string, { key, token }: Held, leaseSeconds: number): void {
    const { ledger, now } = this.#world;
    const fence = token.slice(0, 16);
    if (this.#renewing.has(token)) return;
    this.#renewing.add(token);
    ledger.renews(key, fence, leaseSeconds);
    this.#request(id, { type: "renew", key, token, leaseSeconds }, ({ status }) => {
      this.#renewing.delete(token);
      if (status === "ok") ledger.renewed(key, fence, leaseSeconds, now);
      else {
        ledger.denied(this.name, key, fence, ledger.gaveUp(key, fence));
        this.#held.delete(token);
      }
    });
  }

  #acquire(id: string, request: KeyRequest): void {
    const askedAt = this.#world.now;
    this.#request(id, request, (outcome, number) => this.#granted(`${number}`, request.key, outcome, askedAt));
  }

  #enqueue(id: string, request: KeyRequest): void {
    const { key } = request;
    const askedAt = this.#world.now;
    const hadPlace = this.#places.has(key);
    this.#places.add(key);
    this.#request(id, request, (outcome) => {
      if (hadPlace && outcome.status === "unavailable") return;
      if (outcome.status === "queued" || outcome.status === "already_enqueued") {
        // A `wait` for an earlier place may have ended meanwhile.
        this.#places.add(key);
        return;
      }
      this.#places.delete(key);
      this.#granted(`place at ${key}`, key, outcome, askedAt);
    });
  }

  #wait(id: string, key: string, waitSeconds: number): void {
    const askedAt = this.#world.now;
    const { ledger } = this.#world;
    for (const held of this.#held.values()) {
      if (!held.isPlace || held.key !== key) continue;
      if (this.#renewing.has(held.token)) ledger.gaveUp(key, held.token.slice(0, 16));
      else ledger.renews(key, held.token.slice(0, 16), held.leaseSeconds);
    }
    this.#request(id, { type: "wait", key, waitSeconds }, (outcome) => {
      const isOver = outcome.status !== "unavailable" && outcome.status !== "error";
      if (isOver) this.#waitEnds(key);
      this.#granted(`place at ${key}`, key, outcome, askedAt);
    });
  }

  #granted(request: string, key: string, { token, leaseSeconds = 0 }: Outcome, askedAt: number): void {
    // It ends with the session.
    if (token === undefined || this.#isEnding) return;
    this.#held.set(token, { key, token, leaseSeconds, isPlace: request.startsWith("place") });
    const claim = `${this.name} ${this.#id} ${request}`;
    this.#world.ledger.granted(this, { claim, key, fence: token.slice(0, 16), leaseSeconds, askedAt });
  }

  #request(id: string, request: KeyRequest, done: (outcome: Outcome, number: number) => void): void {
    const { schedule } = this.#world;
    const controller = new AbortController();
    this.#lastRequest += 1;
    const number = this.#lastRequest;
    const abort = () => controller.abort();
    const asked = this.#asks(`${request.type} ${number}`, request.key, abort);
    const hangUp = () => {
      if (!this.#asked.delete(asked)) return;
      this.#world.tell(`${this.name} hangs up on ${asked.what}`);
      if (request.type === "wait") this.#waitEnds(request.key);
      abort();
    };
    this.#world.call(
      ({ rest }) => rest.perform(id, { request, label: undefined }, controller.signal),
      (end) => {
        if (!this.#asked.delete(asked)) return;
        const said =
          typeof end === "string" ? end : `${end.result.status} ${"token" in end.result ? end.result.token : ""}`;
        this.#world.tell(`${this.name} hears ${said} for ${asked.what}`);
        if (end === "lost") this.#hasLost = true;
        if (typeof end === "string") return;
        const { result } = end;
        if (result.status === "gone") {
          this.#gone(id);
          return;
        }
        this.#answeredAt = schedule.now;
        if (result.status === "left") this.#world.fail(`${this.name} has not left`);
        else if (id === this.#id) done(result, number);
      },
    );
    if (schedule.happens(0.15) && request.type !== "release" && request.type !== "renew")
      schedule.after(schedule.pick([0, 5, 400, 3_000]) ?? 0, hangUp);
  }

  /** A `wait` that is answered or abandoned ends the place. Of several, only one has it: the last one to end may. */
  #waitEnds(key: string): void {
    const isWaiting = [...this.#asked].some((asked) => asked.key === key && asked.what.startsWith("wait"));
    if (!isWaiting) this.#places.delete(key);
  }
}
