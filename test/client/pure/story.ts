/** Several clients of one key, what happens to them step by step, and what must be true after each of the steps. */
import { expect } from "vitest";
import { type Clock, connect, type Lock, LockError, type Locks, type Ticket } from "../../../src/client/index.ts";
import { CoreService, GRACE_MS } from "./core-service.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { type Kept, Wire } from "./fake-network.ts";

/** What may happen. Numbers choose among what there is at that moment. */
export type Step =
  | { readonly type: "arrive"; readonly which: readonly number[]; readonly isInOneGo: boolean }
  /** Everything arrives. */
  | { readonly type: "calm" }
  /** Time passes; a machine that sleeps sees it on its wall clock only, and does nothing meanwhile. */
  | { readonly type: "pass" | "sleep"; readonly ms: number }
  /** From now on the service forgets the losses that it should tell again on the next connection. */
  | { readonly type: "forget" }
  | ({ readonly type: "acquire" | "steal" | "try"; readonly client: number } & Terms)
  /** A callback that ends with a `release`; its lock is then kept for a while. */
  | ({ readonly type: "sticky"; readonly client: number; readonly maxIdle?: number | undefined } & Terms)
  | ({ readonly type: "enqueue"; readonly client: number } & Pick<Terms, "lease">)
  | ({ readonly type: "wait"; readonly ticket: number } & Terms)
  | { readonly type: "leave"; readonly ticket: number }
  | { readonly type: "abort"; readonly wish: number }
  | { readonly type: "release"; readonly lock: number }
  | ({ readonly type: "cut"; readonly client: number } & Kept)
  /** A cut that both ends notice at once, and no connection for that time. */
  | { readonly type: "outage"; readonly client: number; readonly ms: number }
  | { readonly type: "down" | "up" | "close"; readonly client: number };

export interface Terms {
  readonly lease?: number | undefined;
  readonly timeout?: number | undefined;
  readonly maxHold?: number | undefined;
}

interface Member {
  readonly locks: Locks;
  readonly wire: Wire;
  readonly clock: CountingClock;
  /** Those that are not surely over. */
  readonly places: Set<Place>;
  isClosed: boolean;
}

interface Wish {
  readonly type: string;
  readonly member: Member;
  readonly stop: AbortController;
  readonly timeout: number | undefined;
  readonly askedAt: number;
  /** Where it takes a place, or waits. */
  readonly place: Place | undefined;
  isOver: boolean;
}

interface Held {
  readonly member: Member;
  readonly lock: Lock;
  /** Ends the callback that has it. */
  readonly end?: () => void;
}

interface Place {
  readonly member: Member;
  ticket: Ticket | undefined;
  /** Its client has asked for another one while this may have been there: a client has one at most, and may confuse them. */
  isCrowded: boolean;
  isLeft: boolean;
  isWaitedFor: boolean;
}

const ENOUGH = "enough";
const STEP_MS = 250;
const NEVER_MS = Number.POSITIVE_INFINITY;
/** Beyond what a lost session and the longest pause before an attempt need. */
const END_WITHIN_MS = 4 * GRACE_MS;
/** Whoever hears nothing for longer has given up the connection. */
const LONGEST_WAY_MS = GRACE_MS;
/** By which a steal is known: nobody else asks for such a lease. */
const STEAL_LEASE_S = 1_000;

/** Knows which timers are its client's. */
class CountingClock implements Clock {
  readonly #clock: Clock;
  readonly armed = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wall(): number {
    return this.#clock.wall();
  }

  steady(): number {
    return this.#clock.steady();
  }

  after(ms: number, call: () => void): () => void {
    const cancel = this.#clock.after(ms, () => {
      this.armed.delete(end);
      call();
    });
    const end = () => {
      this.armed.delete(end);
      cancel();
    };
    // What is due at once is over in a moment.
    if (ms > 0) this.armed.add(end);
    return end;
  }
}

export class Story {
  readonly #clock = new FakeClock();
  readonly #service: CoreService;
  readonly #limit: number;
  readonly #members: Member[];
  /** What is under way between clients and service, one thing of each lane. */
  readonly #travelling: { readonly label: string; readonly arrive: () => void }[] = [];
  readonly #wishes: Wish[] = [];
  readonly #places: Place[] = [];
  readonly #held: Held[] = [];
  /** Promises that never reject, and whose they are. */
  readonly #pending = new Map<Promise<unknown>, Member>();
  readonly #faults: unknown[] = [];
  #hasSlept = false;
  #isEnding = false;
  /** What has happened, for whoever has to find out why. */
  readonly log: string[] = [];

  constructor({ limit, clients }: { readonly limit: number; readonly clients: number }) {
    this.#limit = limit;
    this.#service = new CoreService(this.#clock, limit);
    this.#members = ["ada", "bob", "eve"].slice(0, clients).map((name) => this.#join(name));
  }

  async run(steps: readonly Step[]): Promise<void> {
    for (const step of steps) {
      this.log.push(JSON.stringify(step));
      await this.#take(step);
      await this.#settle();
    }
    await this.#end();
  }

  #join(name: string): Member {
    const carry = (label: string, arrive: () => void) => this.#travelling.push({ label, arrive });
    const wire = new Wire(this.#service, name, carry, (text) => this.#checkSteal(text));
    const clock = new CountingClock(this.#clock);
    return {
      locks: connect("ws://service", { clock, WebSocket: wire.WebSocket }),
      wire,
      clock,
      places: new Set(),
      isClosed: false,
    };
  }

  async #take(step: Step): Promise<void> {
    switch (step.type) {
      case "arrive":
        for (const which of step.which) {
          this.#arrive(which);
          if (!step.isInOneGo) await this.#settle();
        }
        return;
      case "calm":
        for (let count = 0; count < 200 && this.#travelling.length > 0; count += 1) {
          this.#arrive(0);
          await this.#settle();
        }
        return;
      case "pass":
        return this.#pass(step.ms);
      case "sleep":
        this.#hasSlept = true;
        this.#clock.sleep(step.ms);
        this.#service.wake();
        this.#check();
        return this.#pass(1);
      case "forget":
        this.#service.isForgetful = true;
        return;
      case "acquire":
      case "steal":
      case "try":
        return this.#acquire(step.type, this.#member(step.client), step);
      case "sticky":
        return this.#request(this.#member(step.client), step);
      case "enqueue":
        return this.#enqueue(this.#member(step.client), step);
      case "wait":
        return this.#wait(
          pick(
            this.#places.filter(({ isLeft, isWaitedFor }) => !isLeft && !isWaitedFor),
            step.ticket,
          ),
          step,
        );
      case "leave":
        return this.#leave(pick(this.#places, step.ticket));
      case "abort": {
        const wish = pick(
          this.#wishes.filter(({ isOver }) => !isOver),
          step.wish,
        );
        return wish?.stop.abort(ENOUGH);
      }
      case "release":
        return this.#release(pick(this.#held, step.lock));
      case "cut":
        return this.#member(step.client).wire.cut(step);
      case "outage":
        return this.#outage(this.#member(step.client).wire, step.ms);
      case "down":
      case "up":
        this.#member(step.client).wire.isDown = step.type === "down";
        return;
      case "close":
        return this.#close(this.#member(step.client));
    }
  }

  #acquire(type: "acquire" | "steal" | "try", member: Member, { lease, timeout, maxHold }: Terms): void {
    const wish = this.#wish(type, member, timeout);
    const steal = type === "steal";
    const terms = {
      limit: this.#limit,
      signal: wish.stop.signal,
      ...(lease !== undefined && { lease }),
      ...(maxHold !== undefined && { maxHold }),
      ...(steal && { steal, lease: (STEAL_LEASE_S + this.#wishes.indexOf(wish)) * 1000 }),
    };
    const asked =
      type === "try"
        ? member.locks.tryAcquire("key", terms)
        : member.locks.acquire("key", { ...terms, ...(timeout !== undefined && { timeout }) });
    this.#follow(wish, asked, (lock) => lock && this.#hold(member, lock));
  }

  #request(
    member: Member,
    { lease, timeout, maxHold, maxIdle }: Terms & { readonly maxIdle?: number | undefined },
  ): void {
    const wish = this.#wish("sticky", member, timeout);
    const options = { limit: this.#limit, signal: wish.stop.signal, sticky: true, lease, timeout, maxHold, maxIdle };
    const run = (lock: Lock) => {
      const { promise, resolve } = Promise.withResolvers<Lock>();
      this.#hold(member, lock, () => resolve(lock));
      return promise;
    };
    // Whatever has become of it since, it is not this callback's any more.
    this.#follow(wish, member.locks.request("key", options, run), (lock) => expect(lock.isHeld).toBe(false));
  }

  #enqueue(member: Member, { lease }: Terms): void {
    const place: Place = { member, ticket: undefined, isCrowded: false, isLeft: false, isWaitedFor: false };
    member.places.add(place);
    if (member.places.size > 1) for (const each of member.places) each.isCrowded = true;
    const wish = this.#wish("enqueue", member, undefined, place);
    const terms = { limit: this.#limit, signal: wish.stop.signal, ...(lease !== undefined && { lease }) };
    this.#follow(wish, member.locks.enqueue("key", terms), (ticket) => {
      place.ticket = ticket;
      this.#places.push(place);
      if (this.#isEnding) this.#leave(place);
    });
  }

  #wait(place: Place | undefined, { timeout, maxHold }: Terms): void {
    if (!place?.ticket) return;
    place.isWaitedFor = true;
    const { member, ticket } = place;
    const wish = this.#wish("wait", member, timeout, place);
    const terms = { ...(timeout !== undefined && { timeout }), ...(maxHold !== undefined && { maxHold }) };
    const waited = ticket.wait({ signal: wish.stop.signal, ...terms }).catch((error) => {
      if (!(place.isLeft && error instanceof DOMException)) throw error;
      return null;
    });
    void waited.catch(() => {}).finally(() => member.places.delete(place));
    this.#follow(wish, waited, (lock) => lock && this.#hold(member, lock));
  }

  #leave(place: Place | undefined): void {
    if (!place?.ticket) return;
    place.isLeft = true;
    this.#await(
      place.member,
      place.ticket.leave().then(() => place.member.places.delete(place)),
    );
  }

  #hold(member: Member, lock: Lock, end?: () => void): void {
    // A short lease may be over before its grant arrives; after a sleep nothing is believed in until the next heartbeat.
    const isCertain = lock.lease > LONGEST_WAY_MS && !this.#hasSlept;
    if (isCertain && !lock.isHeld && !lock.signal.aborted) fail("got a lock that is not held");
    const hold = { member, lock, ...(end && { end }) };
    this.#held.push(hold);
    if (this.#isEnding) this.#release(hold);
  }

  #release(hold: Held | undefined): void {
    if (!hold) return;
    this.#held.splice(this.#held.indexOf(hold), 1);
    if (hold.end) {
      hold.end();
      return;
    }
    this.#await(hold.member, hold.lock.release());
    expect(hold.lock.isHeld).toBe(false);
  }

  /** All that a client waits for ends at once, whatever the network does. */
  async #close(member: Member): Promise<void> {
    if (member.isClosed) return;
    member.isClosed = true;
    const closed = member.locks.close();
    for (const hold of this.#held.filter((each) => each.member === member && each.end)) this.#release(hold);
    await settled();
    expect([...this.#pending.values()]).not.toContain(member);
    this.#await(
      member,
      closed.then(() => expect(member.clock.armed.size).toBe(0)),
    );
  }

  #wish(type: string, member: Member, timeout: number | undefined, place?: Place): Wish {
    const askedAt = this.#clock.wall();
    const wish = { type, member, stop: new AbortController(), timeout, askedAt, place, isOver: false };
    this.#wishes.push(wish);
    return wish;
  }

  #follow<Value>(wish: Wish, asked: Promise<Value>, got: (value: Value) => unknown): void {
    const outcome = asked.then(got, (error) => this.#checkError(wish, error));
    this.#await(
      wish.member,
      outcome.finally(() => {
        wish.isOver = true;
      }),
    );
  }

  #await(member: Member, promise: Promise<unknown>): void {
    const caught = promise.catch((fault) => this.#faults.push(fault)).finally(() => this.#pending.delete(caught));
    this.#pending.set(caught, member);
  }

  #arrive(which: number): void {
    const thing = pick(this.#travelling, which);
    if (!thing) return;
    this.#travelling.splice(this.#travelling.indexOf(thing), 1);
    this.log.push(`  ${thing.label.trim()}`);
    thing.arrive();
  }

  async #settle(): Promise<void> {
    await settled();
    this.#check();
  }

  async #outage(wire: Wire, ms: number): Promise<void> {
    const wasDown = wire.isDown;
    wire.isDown = true;
    wire.cut({ up: 0, down: 0 });
    const isItsOwn = ({ label }: { readonly label: string }) => label.startsWith(`${wire.name} `);
    while (this.#travelling.some(isItsOwn)) this.#arrive(this.#travelling.findIndex(isItsOwn));
    await this.#pass(ms);
    wire.isDown = wasDown;
  }

  async #pass(ms: number): Promise<void> {
    const end = this.#clock.wall() + ms;
    for (let left = ms; left > 0; left = end - this.#clock.wall()) {
      const untilWake = Math.max(1, this.#service.nextWake - this.#clock.wall());
      await this.#clock.pass(Math.min(left, untilWake));
      this.#check();
      this.#service.wake();
      this.#check();
    }
  }

  /**
   * A client may believe in a hold that the key does not know for one reason only: it was stolen, and the client cannot
   * know yet. Every other end of a hold is the client's own doing, and it stops believing before it says so; or it is an
   * end that the client foresees by its clock, of the lease or of the session's grace, which it counts from an earlier
   * moment than the service does. A steal cannot be foreseen. But its news leaves in the same step, or with the next
   * connection, where every hold is also verified: so belief ends when that is read, before a connection has nothing more
   * under way, and at the latest when the lease or the session would have ended without the steal.
   * With the key's own limit on holders it follows that never more than that many believe, beside those not told yet.
   */
  #check(): void {
    const { engine, thefts, told } = this.#service;
    const { holders } = engine.view();
    const believed = this.#held.filter(({ lock }) => lock.isHeld);
    const tokens = new Set(believed.map(({ lock }) => lock.token));
    if (holders.length > this.#limit) fail("the key has too many holders");
    if (tokens.size < believed.length) fail("two believe in the same hold");
    for (const { member, lock } of believed) {
      if (member.isClosed) fail("a closed client believes");
      if (holders.some(({ fence }) => fence === lock.fence)) continue;
      const theft = thefts.get(lock.token);
      if (!theft) fail("believes in a hold that is over, and was not stolen");
      if (told.has(lock.token)) fail("believes in a hold of which he was told that it is lost");
      if (theft.expiresAt <= this.#clock.wall()) fail("believes in a stolen hold whose lease is over");
      if (this.#travelling.length === 0 && member.wire.isConnected)
        fail("believes in a stolen hold with nothing under way");
      if (this.#service.isOver(theft.session)) fail("believes in a stolen hold whose session is over");
    }
    if (this.#faults.length > 0) throw this.#faults[0];
  }

  /**
   * A steal is sent, or sent again, only while somebody wants it: aborted before that, or before the lost one is repeated, it
   * robs nobody. One that is on its way already cannot be called back.
   */
  #checkSteal(text: string): void {
    const [, lease] = /steal\nkey\n\d+ (\d+)\n$/.exec(text) ?? [];
    if (lease === undefined) return;
    const wish = this.#wishes[Number(lease) - STEAL_LEASE_S];
    const isWanted = wish?.type === "steal" && !wish.isOver && !wish.stop.signal.aborted;
    if (!isWanted) this.#faults.push(new Error("a steal was sent that nobody wants"));
  }

  #checkError({ stop, timeout, askedAt, place }: Wish, error: unknown): void {
    if (error === ENOUGH) expect(stop.signal.aborted).toBe(true);
    else if (!(error instanceof LockError)) throw error;
    else if (error.code === "timeout") expect(this.#clock.wall() - askedAt).toBeGreaterThanOrEqual(timeout ?? NEVER_MS);
    else if (error.code === "already_enqueued" || error.code === "not_enqueued") expect(place?.isCrowded).toBe(true);
    else if (error.code !== "connection" && error.code !== "lost") throw error;
  }

  /** The network is whole, everybody who holds gives back, and nothing must be left of it all. */
  async #end(): Promise<void> {
    this.log.push("end");
    this.#isEnding = true;
    for (const { wire } of this.#members) wire.isDown = false;
    for (const place of this.#places) if (!place.isWaitedFor && !place.isLeft) this.#leave(place);
    for (const hold of [...this.#held]) this.#release(hold);
    await this.#untilQuiet(() => this.#pending.size === 0);
    const endedAt = this.#clock.wall();
    await this.#untilQuiet(() => this.#clock.wall() > endedAt + GRACE_MS + STEP_MS);
    const { engine, requests } = this.#service;
    expect(engine.view()).toMatchObject({ holderCount: 0, waiters: 0 });
    // Nothing is sent again on the next connection either.
    const heard = requests.length;
    for (const { wire } of this.#members) wire.cut({ up: 0, down: 0 });
    await this.#untilQuiet(() => this.#clock.wall() > endedAt + 2 * GRACE_MS);
    expect(requests.slice(heard).filter((type) => !["resume", "watch", "ping"].includes(type))).toEqual([]);
    for (const member of this.#members) await this.#close(member);
    await this.#untilQuiet(() => this.#pending.size === 0);
    expect(this.#clock.timers).toBe(0);
    // The key asks once more for a session that had nothing on it, and finds it gone.
    await this.#untilQuiet(() => !engine.hasNews);
    expect(engine.hasNews).toBe(false);
  }

  async #untilQuiet(isOver: () => boolean): Promise<void> {
    const until = this.#clock.wall() + END_WITHIN_MS;
    while (this.#travelling.length > 0 || !isOver()) {
      if (this.#travelling.length > 0) this.#arrive(0);
      else await this.#pass(STEP_MS);
      await this.#settle();
      if (this.#clock.wall() > until) throw new Error("it never ends");
    }
  }

  #member(number: number): Member {
    return pick(this.#members, number) as Member;
  }
}

function pick<Thing>(things: readonly Thing[], number: number): Thing | undefined {
  return things[number % Math.max(1, things.length)];
}

function fail(problem: string): never {
  throw new Error(problem);
}
