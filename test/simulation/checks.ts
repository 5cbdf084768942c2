import type { KeyOutcome } from "../../src/core/session/key-calls.ts";
import type { KeyHost } from "./key-host.ts";
import type { Call, World } from "./world.ts";

export class Violation extends Error {}

/** More than a renewal, a callback and the ways take together. */
const STARVES_AFTER_MS = 20_000;

/** What must be true at every moment. */
export class Checks {
  readonly #world: World;
  /** Which claim got which hold. */
  readonly #claims = new Map<string, string>();
  readonly #fences = new Map<string, string>();
  readonly #tokens = new Map<string, ReadonlySet<string>>();
  readonly #steals = new Map<string, string>();
  readonly #seen = new WeakSet<Call>();
  readonly #releases = new WeakSet<Call>();
  /** The last call that has arrived for the first time. */
  readonly #arrived = new Map<Call["way"], number>();
  grants = 0;

  constructor(world: World) {
    this.#world = world;
  }

  fail(problem: string): never {
    throw new Violation(problem);
  }

  /** A client has been told that it holds. No other claim may ever have been told the same. */
  granted(claim: string, key: string, token: string): void {
    const hold = `${key} ${token}`;
    const other = this.#claims.get(hold);
    if (other !== undefined && other !== claim) this.fail(`${claim} and ${other} both believe in ${hold}`);
    if (other === undefined) this.grants += 1;
    this.#claims.set(hold, claim);
  }

  /** A steal takes a lock from its holders once, however often it is repeated. */
  stole(request: string, token: string): void {
    const before = this.#steals.get(request) ?? token;
    if (before !== token) this.fail(`${request} steals twice`);
    this.#steals.set(request, token);
  }

  /** A key has carried out a call, for the first time or again. */
  carriedOut(call: Call, outcome: KeyOutcome): void {
    const { way, number, ask } = call;
    const last = this.#arrived.get(way) ?? 0;
    if (number > last) this.#arrived.set(way, number);
    else if (!this.#seen.has(call)) this.fail(`${ask.type} is overtaken on the way ${way.path}`);
    this.#seen.add(call);
    if (ask.type !== "release") return;
    if (outcome?.status === "released") this.#releases.add(call);
    else if (this.#releases.has(call)) this.fail(`${way.path}: a release that was carried out is denied`);
  }

  /** A key has given a hold to somebody else because its client was never told of it. */
  givenBack(name: string, fence: string): void {
    const believer = this.#world.clients.find((client) => client.believesIn(name, fence));
    if (believer) this.fail(`${name} takes ${fence} back from ${believer.name}, who was told of it`);
  }

  /** Called after each change of a key. */
  keyChanged({ name, stored, limit, now }: KeyHost): void {
    const { rows } = stored;
    const held = [...rows.slots.values()].filter(({ isHeld, expiresAt }) => isHeld && expiresAt > now);
    if (held.length > limit) this.fail(`${name} is held ${held.length} times`);
    const before = this.#tokens.get(name) ?? new Set();
    for (const { token, place, session } of held.toSorted((one, other) => (one.token < other.token ? -1 : 1))) {
      if (before.has(token)) continue;
      const fence = token.slice(0, 16);
      const last = this.#fences.get(name) ?? "";
      if (fence <= last) this.fail(`the fence of ${name} falls from ${last} to ${fence}`);
      this.#fences.set(name, fence);
      this.#inOrder(name, place, session, now);
    }
    this.#tokens.set(name, new Set(held.map(({ token }) => token)));
  }

  /** A new hold that comes from the queue comes from its front. */
  #inOrder(name: string, place: number, session: string, now: number): void {
    if (place === 0) return;
    const { rows } = this.#world.key(name).stored;
    const promoted = new Set([...rows.slots.values()].filter(({ isHeld }) => isHeld).map((slot) => slot.place));
    for (const waiter of rows.waiters.values()) {
      const isWaiting = waiter.outcome === undefined && waiter.deadline > now && !promoted.has(waiter.place);
      if (isWaiting && waiter.place < place) this.fail(`${session} overtakes ${waiter.session} at ${name}`);
    }
  }

  /** Nothing has failed for a while: a session waits at keys for what its client waits for, and for nothing else. */
  noGhosts(session: string, places: number): void {
    if (this.#world.sessions.get(session)?.isInDoubt) return;
    let waiters = 0;
    for (const { stored, now } of this.#world.keys.values())
      for (const waiter of stored.rows.waiters.values())
        if (waiter.session === session && waiter.outcome === undefined && waiter.deadline > now) waiters += 1;
    if (waiters > places) this.fail(`${session} waits ${waiters} times for a client that waits ${places} times`);
  }

  /** Nothing has failed for a while: nobody waits behind somebody who keeps the key for himself. */
  nobodyStarves(name: string, { key, token }: { readonly key: string; readonly token: string }): void {
    const { stored, now } = this.#world.key(key);
    const held = [...stored.rows.slots.values()].find((slot) => slot.isHeld && slot.token === token);
    const promoted = new Set([...stored.rows.slots.values()].map((slot) => (slot.isHeld ? slot.place : 0)));
    for (const waiter of stored.rows.waiters.values()) {
      const isWaiting = waiter.outcome === undefined && waiter.deadline > now && !promoted.has(waiter.place);
      const waitedMs = now - Math.max(waiter.joinedAt, held?.since ?? now);
      if (held && isWaiting && waitedMs > STARVES_AFTER_MS)
        this.fail(`${waiter.session} starves behind ${name} at ${key}`);
    }
  }

  /** A session has left all its keys: nothing of it may be at any of them. */
  hasLeft(session: string): void {
    for (const { name, stored, now } of this.#world.keys.values()) {
      for (const slot of stored.rows.slots.values())
        if (slot.session === session && slot.isHeld && slot.expiresAt > now)
          this.fail(`${session} has left and still holds ${name}`);
      for (const waiter of stored.rows.waiters.values())
        if (waiter.session === session && waiter.outcome === undefined && waiter.deadline > now)
          this.fail(`${session} has left and still waits at ${name}`);
    }
  }

  /** Everybody has left, and everything has had its time: nothing may be left at keys. */
  nothingLeftAtKeys(): void {
    for (const { name, stored } of this.#world.keys.values()) {
      const { holderCount, waiters } = stored.engine.view();
      if (holderCount > 0 || waiters > 0 || stored.engine.hasNews)
        this.fail(`${name} keeps ${holderCount} holders, ${waiters} waiters${stored.engine.hasNews ? ", news" : ""}`);
    }
  }

  /** Nothing may be stored. Until the directory asks, that excludes sessions that lost their sockets to a fault. */
  nothingLeftInSessions({ isSwept }: { readonly isSwept: boolean }): void {
    for (const { name, stored } of this.#world.sessions.values()) {
      const resumption = stored.get("resumption") as { readonly detachedAt: number | undefined } | undefined;
      const isFault = resumption?.detachedAt === undefined && stored.get("ending") === undefined;
      const isExcused = !isSwept && isFault && !name.startsWith("http:");
      if (!stored.isEmpty && !isExcused) this.fail(`${name} keeps ${JSON.stringify(stored.keys())} and more`);
    }
  }
}
