/** What must be true after every command, whatever happened before. */
import assert from "node:assert/strict";
import type { KeyEvent } from "../../../src/core/engine/index.ts";
import type { Call, Result, StoredEngine } from "../stored-engine.ts";
import { Counts } from "./counts.ts";
import { expectedSlotRows, expectedWaiterRows, unansweredNotices } from "./expectations.ts";
import type { KeyModel } from "./key-model.ts";
import type { Notice, Rules } from "./types.ts";

/** An ended wait whose session cannot be told is given up after this many notices. */
/** The last that a key remembers in any case. */
const MAX_RELEASES = 4;
const MAX_NOTICES = 30;
const GRACE_MS = 2_500;

/** What a check needs to know of the time before the command. */
interface Before {
  readonly unanswered: readonly Notice[];
  readonly own: number;
  readonly lapses: number;
  readonly waiters: number;
  /** The call has ended a hold before. */
  readonly isAgain: boolean;
}

export class Invariants {
  readonly counts = new Counts();
  /** Every token there has been. */
  readonly tokens = new Set<string>();
  readonly #key: StoredEngine;
  readonly #model: KeyModel;
  readonly #rules: Rules;
  /** Notices sent for each request. */
  readonly #notices = new Map<string, number>();
  readonly #over = new Set<string>();
  #highestFence = 0n;
  #clockWentBack = false;
  #isFreshlyLoaded = false;

  constructor(key: StoredEngine, model: KeyModel, rules: Rules) {
    this.#key = key;
    this.#model = model;
    this.#rules = rules;
  }

  get nextWake(): number {
    return this.#key.engine.nextWake({ gcMaxIdleMs: this.#rules.gcMaxIdleMs, graceMs: GRACE_MS });
  }

  /** A request was withdrawn, or its end has been heard. Unless the key still has something of it, it must stay over. */
  setOver(request: string): void {
    if (!this.#model.repeat(request)) this.#over.add(request);
  }

  clockWentBack(): void {
    this.#clockWentBack = true;
  }

  reloaded(): void {
    this.#isFreshlyLoaded = true;
    this.#notices.clear();
  }

  pruned(): void {
    this.#isFreshlyLoaded = true;
  }

  before(call: Call): Before {
    const { session } = { session: "", ...call, ...("command" in call && call.command) };
    const { waiters, slots, lapsed } = this.#key.rows;
    return {
      unanswered: unansweredNotices(this.#model),
      own: [...waiters.values(), ...slots.values()].filter((row) => row.session === session).length,
      lapses: lapsed.size,
      waiters: waiters.size,
      isAgain: "id" in call && this.#model.hasEnded(call.id),
    };
  }

  /** Checks one command; returns the notices that it has sent. */
  check(call: Call, result: Result, before: Before, now: number): Notice[] {
    const sent = this.#checkEvents(result.events, before.unanswered);
    this.counts.check(result, this.#model);
    this.#giveUp();
    this.#checkRows();
    this.#checkHolders(call, now);
    this.#checkGrants();
    this.#checkWake(call, now);
    this.#checkCost(call, result, before);
    return sent;
  }

  /** Every notice is sent at once and is true; every loss is told exactly once. */
  #checkEvents(events: readonly KeyEvent[], unansweredBefore: readonly Notice[]): Notice[] {
    const { notices, losses, rounds, wants } = this.#model;
    const wanted = events.flatMap((event) => (event.type === "wanted" ? [event] : []));
    assert.deepEqual(wanted.sort(byToken), wants.map((want) => ({ type: "wanted", ...want })).sort(byToken));
    const told = events.filter(({ type }) => type === "round" || type === "round_over");
    assert.deepEqual(told, rounds);
    const lost = events.flatMap((event) => (event.type === "lost" ? [event] : []));
    assert.deepEqual(lost.sort(byToken), losses.map((loss) => ({ type: "lost", ...loss })).sort(byToken));
    const sent = events.flatMap((event) => {
      if (event.type !== "notice") return [];
      const { type: _, hasPlace: __, refusal: ___, ...notice } = event;
      return [notice];
    });
    const isSame = (a: Notice) => (b: Notice) =>
      a.session === b.session && a.request === b.request && a.kind === b.kind;
    // What was decided before a reload is decided again.
    const mayBeSent = [...notices, ...unansweredBefore];
    for (const notice of sent) assert.equal(mayBeSent.filter(isSame(notice)).length, 1, `true: ${notice.request}`);
    for (const { request, kind, offer, mayBeTold } of sent) {
      const hold = this.#model.holds.find((held) => held.request === request);
      // A grant is offered once. After that its client may have been told.
      const promotion = notices.find((item) => item.request === request && item.kind === kind);
      assert.deepEqual(offer, promotion?.offer);
      if (hold && kind === "granted") assert.equal(mayBeTold === true, hold.isOffered && offer === undefined);
    }
    for (const item of notices) assert.equal(sent.filter(isSame(item)).length, 1, `told: ${item.request} ${item.kind}`);
    for (const { request } of sent) this.#notices.set(request, (this.#notices.get(request) ?? 0) + 1);
    return sent;
  }

  #giveUp(): void {
    const stored = new Set([...this.#key.rows.waiters.values()].map((row) => row.waitRequest ?? row.request));
    for (const { request, kind } of unansweredNotices(this.#model)) {
      const isOver = kind === "timeout" || kind === "lease_expired";
      if (isOver && !stored.has(request) && (this.#notices.get(request) ?? 0) >= MAX_NOTICES)
        this.#model.forgetEnd(request);
    }
  }

  #checkRows(): void {
    const { rows, engine } = this.#key;
    assert.equal(rows.key.limit, this.#model.limit);
    assert.equal(engine.lastFence, this.#model.lastFence);
    const held = [...rows.slots.values()]
      .filter(({ isHeld }) => isHeld)
      .map(({ index, place, releases, ...row }) => row);
    assert.deepEqual(held.sort(byToken), expectedSlotRows(this.#model).sort(byToken));
    const waiters = [...rows.waiters.values()].sort((a, b) => a.place - b.place);
    assert.deepEqual(
      waiters.map(({ place, ...row }) => row),
      expectedWaiterRows(this.#model),
    );
    assert.deepEqual(new Map(rows.lapsed), this.#model.lapsed);
    const remembered = [...rows.slots.values()].flatMap(({ releases = [] }) => releases.map(([id]) => id));
    for (const id of this.#model.endedBy.slice(0, MAX_RELEASES))
      assert.ok(remembered.includes(id), "a release is stored");
  }

  #checkHolders(call: Call, now: number): void {
    const { limit, holders, waiters } = this.#key.engine.view();
    assert.equal(holders.length, this.#model.holds.length);
    assert.equal(waiters, this.#model.queue.length);
    assert.ok(holders.filter(({ expiresAt }) => expiresAt > now).length <= limit, "at most `limit` holders");
    const isDecided = call.do !== "reload" && call.do !== "answer";
    const isPaused = (this.#model.queue[0]?.pausedUntil ?? 0) > now;
    assert.ok(!(isDecided && holders.length < limit && waiters > 0 && !isPaused), "a free slot beside a waiter");
  }

  #checkGrants(): void {
    const fresh = [...this.#key.rows.slots.values()].filter(({ isHeld, token }) => isHeld && !this.tokens.has(token));
    for (const { token, request } of fresh.sort(byToken)) {
      assert.match(token, /^[0-9a-f]{32}$/);
      const fence = BigInt(`0x${token.slice(0, 16)}`);
      assert.ok(fence > this.#highestFence, "the fence rises");
      assert.ok(!this.#over.has(request), `${request} is over`);
      this.#highestFence = fence;
      this.tokens.add(token);
    }
    const served = this.#model.promoted.map(({ place }) => place);
    assert.deepEqual(
      served,
      [...served].sort((a, b) => a - b),
    );
    const waiting = this.#model.queue.map(({ place }) => place);
    assert.ok(Math.max(0, ...served) < Math.min(Number.MAX_VALUE, ...waiting), "nobody is overtaken");
  }

  #checkWake(call: Call, now: number): void {
    const wake = this.nextWake;
    for (const { expiresAt, isWatched, isReported, round } of this.#model.holds) {
      const isWaitedFor = this.#model.queue.length > 0;
      if (isWaitedFor || isWatched || !isReported || round) assert.ok(wake <= expiresAt, "wakes in time");
    }
    for (const { deadline, pausedUntil } of this.#model.queue)
      assert.ok(wake <= (pausedUntil > 0 ? Math.min(deadline, pausedUntil) : deadline), "wakes in time");
    const { gcMaxIdleMs } = this.#rules;
    if (this.#model.isIdle && unansweredNotices(this.#model).length === 0)
      assert.ok(wake <= this.#model.activity.latest + gcMaxIdleMs + 1 + GRACE_MS, "wakes in time");
    if (!this.#clockWentBack) {
      if (unansweredNotices(this.#model).length > 0) assert.ok(wake <= now + 10_000, "wakes in time");
      const stillNew = unansweredNotices(this.#model).filter(({ request }) => this.#notices.get(request) === 1);
      if (this.#model.notices.length > 0 && stillNew.length > 0) assert.ok(wake <= now + 1_000, "wakes in time");
    }
    const hasTicked = call.do !== "reload" && call.do !== "prune" && call.do !== "answer";
    if (hasTicked) this.#isFreshlyLoaded = false;
    if (!this.#isFreshlyLoaded && hasTicked && !this.#model.isIdle) assert.ok(wake > now, "does not wake for nothing");
  }

  /** Rows cost money: their number depends on what has changed, not on the length of the queue. */
  #checkCost(call: Call, { rowsWritten, outcome }: Result, before: Before): void {
    const { grants, endings, promoted, notices } = this.#model;
    const settled = Math.max(0, before.waiters - this.#key.rows.waiters.size);
    const own = call.do === "leave" ? before.own : 0;
    const lapsed = notices.filter(({ kind }) => kind === "lease_expired").length;
    const bound = grants.length + 3 * endings + lapsed + before.lapses + settled + own + 3;
    assert.ok(rowsWritten <= bound, `${rowsWritten} rows, at most ${bound}`);
    const isRelease = (call.do === "release" || call.do === "giveBack") && !before.isAgain;
    if (before.waiters > 0 || before.lapses > 0 || endings + promoted.length > (isRelease ? 1 : 0)) return;
    const status = (outcome as { status?: string } | undefined)?.status;
    const isPlain = (call.do === "acquire" && status === "granted") || (isRelease && status === "released");
    if (isPlain && grants.length + endings <= 1)
      assert.ok(rowsWritten <= 1 + this.#limitRows(call), `${rowsWritten} rows`);
  }

  /** A key that is reset to another limit writes that too. */
  #limitRows(call: Call): number {
    return call.do === "acquire" && this.#model.grants.length === 1 && this.#model.holds.length === 1 ? 1 : 0;
  }
}

function byToken(a: { token: string }, b: { token: string }): number {
  return a.token < b.token ? -1 : 1;
}
