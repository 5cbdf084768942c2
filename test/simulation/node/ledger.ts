import { KeyEngine } from "../../../src/core/engine/index.ts";
import type { SlotRow } from "../../../src/core/key/row-codec.ts";
import type { Sums } from "../../../src/core/metrics/tally.ts";
import { sessionlessProtocolOf } from "../../../src/core/session-names.ts";
import type { SessionWaiters } from "./clients.ts";
import { type Committed, isHeld, type KeyRows, slotsOf } from "./file.ts";
import type { World } from "./world.ts";

/** Who was told. */
export interface Holder {
  readonly name: string;
  /** While it is connected, Infinity. What it holds may end then, by true time. */
  readonly awayUntil: number;
}

/** A hold that a client was told of and has no reason to doubt. */
export interface Belief {
  readonly holder: Holder;
  readonly key: string;
  /** 16 hex digits. */
  readonly fence: string;
  /** By the clock of the process. */
  leaseUntil: number;
  /** The same by true time, as if the clock were never set back. */
  trulyUntil: number;
}

export interface Grant {
  /** Names the request: no other may ever be told of the same hold. */
  readonly claim: string;
  readonly key: string;
  readonly fence: string;
  readonly leaseSeconds: number;
  /** When the client asked, by the clock of the process. */
  readonly askedAt: number;
  /** It has asked again on another socket: the grant may be older than that. */
  readonly isRepeated?: boolean;
}

const REPORTED = 2;
const OFFERED = 64;

/** What clients were told, held against what is stored: at every commit, whenever something is told, and at every start. */
export class Ledger {
  readonly #world: World;
  readonly #beliefs = new Map<string, Belief>();
  readonly #claims = new Map<string, string>();
  /** Holds whose release was answered with `ok`. */
  readonly #released = new Set<string>();
  /** The highest fence of each key that was ever stored. */
  readonly #fences = new Map<string, string>();
  readonly #tokens = new Map<string, ReadonlySet<string>>();
  /** Requests that may take a key from everybody at any time. */
  readonly #steals = new Map<string, Set<unknown>>();
  readonly #forced = new Set<string>();
  readonly #givenUp = new Set<string>();
  #sums: Sums = {};
  grants = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** The process sends a grant. */
  granted(holder: Holder, { claim, key, fence, leaseSeconds, askedAt, isRepeated }: Grant): void {
    const name = `${key} ${fence}`;
    const other = this.#claims.get(name);
    if (other !== undefined && other !== claim) this.#fail(`${claim} and ${other} both believe in ${name}`);
    this.#claims.set(name, claim);
    if (other === undefined) this.grants += 1;
    // It may have been taken away, or given back, in the batch that granted it.
    if (this.#isContested(key) || this.#forced.has(name) || this.#givenUp.has(name)) return;
    const { now } = this.#world;
    const slot = this.#slot(key, fence);
    if (!slot) {
      this.#fail(`${holder.name} is told of ${name}, which is not stored`);
      return;
    }
    if (slot.expires_at <= now) {
      this.#fail(`${holder.name} is told of ${name} after its lease has ended`);
      return;
    }
    if (this.#released.has(name)) {
      this.#fail(`${holder.name} is told of ${name}, which was released`);
      return;
    }
    const isOffer = !isRepeated && (slot.flags & OFFERED) !== 0 && (slot.flags & REPORTED) === 0;
    const beginsAt = isOffer ? now : Math.min(askedAt, now);
    const leaseUntil = Math.min(beginsAt + leaseSeconds * 1000, slot.expires_at);
    const belief = { holder, key, fence, leaseUntil, trulyUntil: this.#truly(leaseUntil) };
    this.#beliefs.set(name, belief);
    if (isOffer) this.#expectLease(belief, now + leaseSeconds * 1000);
  }

  /** The process says that a lease was renewed. */
  renewed(key: string, fence: string, leaseSeconds: number, askedAt: number): void {
    const slot = this.#slot(key, fence);
    const until = Math.min(askedAt, this.#world.now) + leaseSeconds * 1000;
    const belief = this.#beliefs.get(`${key} ${fence}`);
    if (belief && (!slot || slot.expires_at < until)) this.#fail(`the renewal of ${key} ${fence} is not stored`);
    if (!belief) return;
    belief.leaseUntil = until;
    belief.trulyUntil = this.#truly(until);
  }

  /** The client sends a renewal: from here on its lease may be a shorter one. */
  renews(key: string, fence: string, leaseSeconds: number): void {
    const belief = this.#beliefs.get(`${key} ${fence}`);
    if (!belief) return;
    belief.leaseUntil = Math.min(belief.leaseUntil, this.#world.now + leaseSeconds * 1000);
    belief.trulyUntil = Math.min(belief.trulyUntil, this.#world.schedule.now + leaseSeconds * 1000);
  }

  /** The client no longer relies on it. Returns until when, by true time, it could have. */
  gaveUp(key: string, fence: string): number {
    const belief = this.#beliefs.get(`${key} ${fence}`);
    this.#beliefs.delete(`${key} ${fence}`);
    this.#givenUp.add(`${key} ${fence}`);
    return belief ? Math.min(belief.trulyUntil, belief.holder.awayUntil) : 0;
  }

  /** The process says that a hold is over, because its client asked for that. */
  released(key: string, fence: string): void {
    this.#released.add(`${key} ${fence}`);
    if (this.#slot(key, fence)) this.#fail(`the release of ${key} ${fence} is not stored`);
  }

  /** The process says that a hold is over, but its client could rely on it until `until`. */
  denied(who: string, key: string, fence: string, until: number): void {
    const isExcused = this.#isContested(key) || this.#forced.has(`${key} ${fence}`);
    if (until > this.#world.schedule.now && !isExcused) this.#fail(`${who} has lost ${key} ${fence}`);
  }

  /** A request is sent that takes the key from everybody. */
  steals(key: string, request: unknown): void {
    const requests = this.#steals.get(key) ?? new Set();
    this.#steals.set(key, requests);
    requests.add(request);
    for (const [name, belief] of this.#beliefs) if (belief.key === key) this.#beliefs.delete(name);
  }

  /** It is certain that the request takes no more. */
  stole(key: string, request: unknown): void {
    this.#steals.get(key)?.delete(request);
  }

  /** One hold may be taken from its holder at any time. */
  endsByForce(key: string, fence: string): void {
    this.#forced.add(`${key} ${fence}`);
  }

  /** The process says that a session may be resumed. */
  resumable(session: string, secret: string): void {
    for (const { name, text } of this.#world.file.sessions.values())
      if (name === session && text.includes(secret)) return;
    this.#fail(`the session ${session} is not stored`);
  }

  /** The process says that a session was opened, or ended. */
  session(name: string, isThere: boolean): void {
    const stored = [...this.#world.file.sessions.values()].some((row) => row.name === name);
    if (isThere && !stored) this.#fail(`the session ${name} is not stored`);
    if (isThere || !this.#world.config.autoRelease) return;
    for (const rows of this.#world.file.keys.values()) {
      for (const slot of slotsOf(rows))
        if (slot.session === name && isHeld(slot) && slot.expires_at > this.#world.now)
          this.#fail(`${name} has ended and holds ${rows.name}`);
      for (const waiter of rows.waiters.values())
        if (waiter.session === name && waiter.outcome === null) this.#fail(`${name} has ended and waits`);
    }
  }

  /** The process says that a place in the queue was taken. */
  queued(who: string, key: string): void {
    const rows = this.#world.file.keyNamed(key);
    if (!rows) this.#fail(`the place of ${who} at ${key} is not stored`);
  }

  counted(sums: Sums): void {
    for (const [name, sum] of Object.entries(this.#sums))
      if ((sums[name] ?? 0) < sum) this.#fail(`${name} falls from ${sum} to ${sums[name]}`);
    this.#sums = sums;
  }

  committed({ keys }: Committed): void {
    const { file } = this.#world;
    for (const id of keys) {
      const rows = file.keys.get(id);
      if (rows) this.#keyChanged(rows);
    }
    this.#lookAtBeliefs();
  }

  /** A process has started, on what is stored. */
  lookAtAll(): void {
    for (const rows of this.#world.file.keys.values()) this.#keyChanged(rows);
    this.#lookAtBeliefs();
  }

  /** What is in memory is what is stored, if nothing waits to be stored. */
  memoryIsStored(): void {
    const { host, file } = this.#world;
    if (!host || host.keys.hasChanges || host.sessions.hasChanges) return;
    for (const [id, rows] of file.keys) {
      const key = host.keys.get(rows.name);
      if (!key || key.id !== id) {
        this.#fail(`${rows.name} is stored, and not in memory`);
        continue;
      }
      const stored = new KeyEngine(file.loadKey(id) as ConstructorParameters<typeof KeyEngine>[0]);
      const [one, other] = [essence(key.engine, this.#world.now), essence(stored, this.#world.now)];
      if (one !== other) this.#fail(`${rows.name} in memory ${one}, stored ${other}`);
    }
    for (const key of host.keys)
      if (key.id > 0 && !file.keys.has(key.id)) this.#fail(`${key.name} is in memory, and not stored`);
    for (const [id, { name, text }] of file.sessions) {
      const session = host.sessions.get(name);
      if (!session || session.rowId !== id) {
        this.#fail(`${name} is stored, and not in memory`);
        continue;
      }
      const { client: _, ...records } = JSON.parse(text);
      if (JSON.stringify(records) !== JSON.stringify(session.stored))
        this.#fail(`${name} in memory ${JSON.stringify(session.stored)}, stored ${JSON.stringify(records)}`);
    }
  }

  /** Names are listed of all keys that exist, and of no others. */
  allAreListed(): void {
    const { host } = this.#world;
    if (!host) return;
    const listed = host.names.inOrder.join(" ");
    const there = [...host.keys]
      .map(({ name }) => name)
      .sort()
      .join(" ");
    if (listed !== there) this.#fail(`listed: ${listed}; there: ${there}`);
  }

  /** Nothing has failed for a while: whatever waits at a key waits for a client that waits. */
  noGhosts(waiters: readonly SessionWaiters[]): void {
    const { host, setBackMs } = this.#world;
    // Waits that were over by the clock of the last process may go on by that of the next.
    if (!host || setBackMs > 0) return;
    const found = new Map<string, number>();
    for (const { name, engine } of host.keys) {
      for (const { session } of engine.view({ detail: true }).queue) {
        const isClaim = sessionlessProtocolOf(session) !== undefined;
        if (!isClaim && !host.sessions.get(session)) this.#fail(`${session} is gone and waits at ${name}`);
        const who = isClaim ? `claims at ${name}` : session;
        found.set(who, (found.get(who) ?? 0) + 1);
      }
    }
    const expected = new Map<string, number>();
    for (const { session, count } of waiters) expected.set(session, (expected.get(session) ?? 0) + count);
    for (const [who, places] of found) {
      const count = expected.get(who) ?? 0;
      if (places > count) this.#fail(`${who} waits ${places} times for a client that waits ${count} times`);
    }
  }

  /** Everybody has left, and everything has had its time. */
  nothingIsLeft(): void {
    const { host, file } = this.#world;
    if (!host) {
      this.#fail("no process runs");
      return;
    }
    for (const { name, engine } of host.keys) this.#fail(`${name} is left: ${JSON.stringify(engine.view())}`);
    for (const { name } of file.keys.values()) this.#fail(`rows of ${name} are left`);
    for (const { name, text } of file.sessions.values()) this.#fail(`the row of ${name} is left: ${text}`);
    const { tcp, ws, http } = host.sessions.byTransport;
    if (tcp + ws + http > 0) this.#fail(`sessions are left: ${tcp} ${ws} ${http}`);
    if (!host.isWell) this.#fail("the host does not recover");
  }

  #fail(problem: string): void {
    this.#world.fail(problem);
  }

  #truly(time: number): number {
    return this.#world.schedule.now + time - this.#world.now;
  }

  #isContested(key: string): boolean {
    return (this.#steals.get(key)?.size ?? 0) > 0;
  }

  #slot(key: string, fence: string): SlotRow | undefined {
    const rows = this.#world.file.keyNamed(key);
    return rows && slotsOf(rows).find((slot) => isHeld(slot) && slot.token.startsWith(fence));
  }

  #lookAtBeliefs(): void {
    const { now } = this.#world.schedule;
    for (const [name, { holder, key, fence, trulyUntil }] of this.#beliefs) {
      if (Math.min(trulyUntil, holder.awayUntil) <= now) continue;
      const slot = this.#slot(key, fence);
      if (!slot) this.#fail(`${holder.name} was told of ${name}, which is not stored any more`);
      else if (this.#truly(slot.expires_at) < trulyUntil)
        this.#fail(`${holder.name} may rely on ${name} for longer than is stored`);
    }
  }

  /** The lease of a waiter begins when it is told. The key knows in the same turn. */
  #expectLease(belief: Belief, endsAt: number): void {
    const { schedule, troubles } = this.#world;
    const { key, fence, leaseUntil } = belief;
    schedule.after(20, () => {
      const { host } = this.#world;
      if (!host || this.#world.troubles !== troubles || host.batch.backlog > 0 || this.#world.now >= endsAt) return;
      if (this.#beliefs.get(`${key} ${fence}`) !== belief || belief.leaseUntil !== leaseUntil) return;
      if (belief.holder.awayUntil !== Number.POSITIVE_INFINITY) return;
      const held = host.keys
        .get(key)
        ?.engine.view()
        .holders.find((holder) => holder.fence === fence);
      if (!held || held.expiresAt < endsAt)
        this.#fail(`the lease of ${key} ${fence} ends ${endsAt - (held?.expiresAt ?? 0)} ms before it should`);
    });
  }

  #keyChanged(rows: KeyRows): void {
    const { now } = this.#world;
    const { name, head } = rows;
    const held = slotsOf(rows).filter((slot) => isHeld(slot) && slot.expires_at > now);
    if (held.length > head.limit) this.#fail(`${name} is held ${held.length} times`);
    for (const { token } of held)
      if (this.#released.has(`${name} ${token.slice(0, 16)}`)) this.#fail(`${name} ${token} was released, and is held`);
    const last = this.#fences.get(name) ?? "";
    const before = this.#tokens.get(name);
    for (const slot of slotsOf(rows)) {
      const { token, place } = slot;
      if (token === "" || before?.has(token)) continue;
      const fence = token.slice(0, 16);
      if (fence <= last) this.#fail(`the fence of ${name} falls from ${last} to ${fence}`);
      if (fence > (this.#fences.get(name) ?? "")) this.#fences.set(name, fence);
      if (isHeld(slot) && (place > 0 || !this.#isContested(name))) this.#inOrder(rows, slot);
    }
    this.#tokens.set(name, new Set(slotsOf(rows).map(({ token }) => token)));
  }

  /** A new hold that comes from the queue comes from its front; one that does not has found nobody there. */
  #inOrder(rows: KeyRows, { place, session, since }: SlotRow): void {
    const { now } = this.#world;
    const promoted = new Set(slotsOf(rows).map((slot) => (isHeld(slot) ? slot.place : 0)));
    for (const waiter of rows.waiters.values()) {
      const isWaiting = waiter.outcome === null && (waiter.deadline ?? now + 1) > now && !promoted.has(waiter.place);
      // The end of a `wait` that was cut off is taken back: until then others move up.
      const isPutBack = this.#world.troubles > 0 && waiter.is_enqueued === 1 && waiter.deadline === null;
      if (!isWaiting || isPutBack) continue;
      const isOvertaken = place > 0 ? waiter.place < place : waiter.joined_at < since;
      if (isOvertaken) this.#fail(`${session} overtakes ${waiter.session} at ${rows.name}`);
    }
  }
}

/** Everything of a key that must be the same after a restart. That a wait has timed out follows from its deadline. */
function essence(engine: KeyEngine, now: number): string {
  const { limit, holders, queue } = engine.view({ detail: true });
  const held = holders.map(({ session, fence, leaseSeconds }) => [session, fence, leaseSeconds]);
  const waiting = queue
    .filter(({ deadline }) => deadline === undefined || deadline > now)
    .map(({ session, joinedAt, deadline }) => [session, joinedAt, deadline]);
  const sessions = [...engine.sessions].sort();
  return JSON.stringify([limit, String(engine.lastFence), held, waiting, sessions]);
}
