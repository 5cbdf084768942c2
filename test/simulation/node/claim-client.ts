import type { SessionWaiters, SimulatedClient } from "./clients.ts";
import type { Holder } from "./ledger.ts";
import type { World } from "./world.ts";

interface Held {
  readonly key: string;
  readonly fence: string;
}

/** A client without a session: takes one lock by one request, and gives it back by another. */
export class ClaimClient implements SimulatedClient, Holder {
  readonly name: string;
  readonly awayUntil = Number.POSITIVE_INFINITY;
  readonly #world: World;
  readonly #keys: readonly string[];
  #asked: { readonly what: string; readonly key: string; abort(): void } | undefined;
  #held: Held | undefined;
  #requests = 0;
  #isLeaving = false;
  #hasLeft = false;

  constructor(world: World, name: string, keys: readonly string[]) {
    this.#world = world;
    this.name = name;
    this.#keys = keys.filter((key) => !key.startsWith("pool"));
  }

  get unanswered(): readonly string[] {
    if (this.#asked) return [`${this.name} ${this.#asked.what}`];
    return this.#isLeaving && !this.#hasLeft ? [`${this.name} leaves`] : [];
  }

  get waiters(): readonly SessionWaiters[] {
    return this.#asked ? [{ session: `claims at ${this.#asked.key}`, count: 1 }] : [];
  }

  act(): void {
    const { schedule } = this.#world;
    if (this.#hasLeft || this.#asked) return;
    const held = this.#held;
    const key = schedule.pick(this.#keys);
    if (held && (this.#isLeaving || schedule.happens(0.6))) this.#remove(held);
    else if (held && schedule.happens(0.7)) this.#refresh(held, schedule.pick([1, 5, 10]) ?? 1);
    else if (held) this.#held = undefined;
    else if (this.#isLeaving) this.#hasLeft = true;
    else if (key !== undefined && schedule.happens(0.8)) this.#claim(key);
    else if (key !== undefined) this.#force(key);
  }

  leave(): void {
    this.#isLeaving = true;
    this.act();
  }

  vanish(): void {
    this.#world.tell(`${this.name} vanishes`);
    this.#hasLeft = true;
    this.#asked?.abort();
    this.#asked = undefined;
    this.#held = undefined;
  }

  #claim(key: string): void {
    const { schedule, now } = this.#world;
    this.#requests += 1;
    const claim = `${this.name} claim ${this.#requests}`;
    const waitMs = schedule.pick([0, 2_000, 20_000, 300_000]) as number;
    const leaseSeconds = schedule.pick([1, 5, 10, 30]) as number;
    const controller = new AbortController();
    const asked = this.#asks(claim, key, () => controller.abort());
    this.#world.call(
      ({ keys }) =>
        keys.claim(
          key,
          { waitMs, leaseSeconds, sessionless: { kind: "file", tag: this.name, note: "" } },
          controller.signal,
        ),
      (end) => {
        if (this.#asked !== asked) return;
        this.#asked = undefined;
        this.#world.tell(`${this.name} hears ${typeof end === "string" ? end : end.result.status} for ${asked.what}`);
        if (typeof end === "string") return;
        if (end.result.status === "left") this.#world.fail(`${this.name} has not left`);
        if (end.result.status !== "granted") return;
        const { fence } = end.result.hold;
        this.#held = { key, fence };
        this.#world.ledger.granted(this, { claim, key, fence, leaseSeconds, askedAt: now });
      },
    );
    if (schedule.happens(0.25))
      schedule.after(schedule.pick([0, 5, 400, 3_000]) ?? 0, () => {
        if (this.#asked !== asked) return;
        this.#asked = undefined;
        this.#world.tell(`${this.name} hangs up on ${asked.what}`);
        asked.abort();
      });
  }

  #remove({ key, fence }: Held): void {
    this.#held = undefined;
    const { ledger } = this.#world;
    const until = ledger.gaveUp(key, fence);
    const asked = this.#asks("remove", key);
    const command = { type: "remove", selector: { kind: "file", which: { by: "fence", fences: [fence] } } } as const;
    this.#world.call(
      ({ keys }) => keys.ask(key, command),
      (end) => {
        if (this.#asked !== asked) return;
        this.#asked = undefined;
        if (typeof end === "string") return;
        if (end.result.status === "removed") ledger.released(key, fence);
        else ledger.denied(this.name, key, fence, until);
      },
    );
  }

  #refresh({ key, fence }: Held, leaseSeconds: number): void {
    const { ledger, now } = this.#world;
    ledger.renews(key, fence, leaseSeconds);
    const asked = this.#asks("refresh", key);
    const selector = { kind: "file", which: { by: "fence", fences: [fence] } } as const;
    this.#world.call(
      ({ keys }) => keys.ask(key, { type: "refresh", command: { ...selector, leaseSeconds, tag: undefined } }),
      (end) => {
        if (this.#asked !== asked) return;
        this.#asked = undefined;
        if (typeof end === "string") return;
        if (end.result.status === "refreshed") ledger.renewed(key, fence, leaseSeconds, now);
        else {
          ledger.denied(this.name, key, fence, ledger.gaveUp(key, fence));
          this.#held = undefined;
        }
      },
    );
  }

  /** Looks who holds the key, and takes it from that holder. */
  #force(key: string): void {
    const asked = this.#asks("describe", key);
    const over = () => {
      if (this.#asked === asked) this.#asked = undefined;
    };
    this.#world.call(
      ({ keys }) => keys.describe(key, { history: true }),
      (end) => {
        const fence = typeof end === "object" ? end.result?.holders[0]?.fence : undefined;
        if (fence === undefined || this.#asked !== asked) return over();
        this.#world.tell(`${this.name} steals ${fence} of ${key}`);
        this.#world.ledger.gaveUp(key, fence);
        this.#world.ledger.endsByForce(key, fence);
        this.#world.call(({ keys }) => keys.steal(key, fence), over);
      },
    );
  }

  #asks(what: string, key: string, abort = () => {}) {
    const asked = { what, key, abort };
    this.#asked = asked;
    this.#world.tell(`${this.name} asks ${what} of ${key}`);
    return asked;
  }
}
