/**
 * A key among clients that behave as badly as a network lets them: the engine with its rows on one side, the model on
 * the other, and every step put to both. `check` is what must be true whatever has happened.
 */
import assert from "node:assert/strict";
import type { Answer, CommandContext, KeyEvent, Which } from "../../src/engine/index.ts";
import { Counts } from "./counts.ts";
import { type Circumstances, KeyModel, type News, SALT, type Seen, type Wait } from "./model.ts";
import { type Call, type Result, StoredEngine } from "./stored-engine.ts";

export const START = 1_700_000_000_000;
/** A wait that is over and cannot be told is given up after this many notices. */
const MOST_NOTICES = 30;
const GRACE_MS = 2_500;
const SESSIONS = 4;

type Pick = number;

export type Delivery = "honest" | "gone" | "cut off" | "detached" | "answer lost" | "twice" | "lost";
export type Jump =
  | { readonly to: "later"; readonly ms: number }
  | { readonly to: "earlier"; readonly ms: number }
  /** Some deadline or lease end, give or take a millisecond. */
  | { readonly to: "deadline"; readonly pick: Pick; readonly off: number }
  | { readonly to: "wake" };

/** Any hold, the one with the fence of some token that was known once, or one with a mark. */
export type Selected = { readonly by: "any" } | { readonly by: "fence" | "mark"; readonly pick: Pick };

export type Step =
  | {
      readonly step: "acquire";
      readonly who: Pick;
      readonly otherLimit: number | undefined;
      readonly waitMs: number;
      readonly leaseSeconds: number;
      readonly mayWait: boolean;
    }
  | {
      readonly step: "enqueue";
      readonly who: Pick;
      readonly otherLimit: number | undefined;
      readonly leaseSeconds: number;
    }
  | {
      readonly step: "wait";
      readonly who: Pick;
      readonly waitMs: number;
      readonly mayWait: boolean;
      readonly takesOver: boolean;
    }
  | { readonly step: "release"; readonly who: Pick; readonly token: Pick; readonly isOwn: boolean }
  /** Of some hold, or of a token that was known once. */
  | { readonly step: "steal"; readonly hold: Pick; readonly isHeld: boolean }
  | { readonly step: "renew"; readonly token: Pick; readonly leaseSeconds: number }
  /** A holder without a session, one of few marks. */
  | {
      readonly step: "claim";
      readonly kind: string;
      readonly mark: Pick;
      readonly waitMs: number;
      readonly leaseSeconds: number;
    }
  | {
      readonly step: "refresh";
      readonly kind: string;
      readonly which: Selected;
      readonly leaseSeconds: number | undefined;
    }
  | { readonly step: "remove"; readonly kind: string; readonly which: Selected }
  | { readonly step: "misuse"; readonly who: Pick; readonly token: Pick }
  | { readonly step: "cancel"; readonly request: Pick }
  | { readonly step: "repeat"; readonly request: Pick }
  | { readonly step: "leave"; readonly who: Pick; readonly keepsReported: boolean }
  | { readonly step: "jump"; readonly jump: Jump }
  | { readonly step: "tick" }
  | { readonly step: "deliver"; readonly notice: Pick; readonly how: Delivery }
  | { readonly step: "reload"; readonly losesNotices: boolean }
  | { readonly step: "prune"; readonly limit: number };

interface Client {
  readonly id: string;
  /** Requests that wait for an answer. */
  readonly running: Set<string>;
}

type Asked = Extract<Call, { do: "acquire" | "enqueue" | "wait" | "claim" }>;

export class World {
  readonly rules: Circumstances;
  readonly log: { readonly call: Call; readonly now: number }[] = [];
  readonly key: StoredEngine;
  readonly model: KeyModel;
  now = START;
  #clients: Client[] = [];
  /** Those without a session: each makes one claim. */
  readonly #claimants: Client[] = [];
  #ids = 0;
  readonly #asked: Asked[] = [];
  readonly #tokens: string[] = [];
  #inFlight: News[] = [];
  readonly #counts = new Counts();
  readonly #notices = new Map<string, number>();
  /** Requests that were withdrawn or whose end has been heard: no grant may ever name them again. */
  readonly #dead = new Set<string>();
  readonly #known = new Set<string>();
  #highest = 0n;
  #clockWentBack = false;
  #isFreshlyLoaded = false;

  constructor(limit: number, rules: Circumstances) {
    this.rules = rules;
    this.key = new StoredEngine(limit, START);
    this.model = new KeyModel(limit, START, rules);
    for (let who = 0; who < SESSIONS; who += 1) this.#clients.push(this.#newClient());
  }

  take(step: Step): void {
    switch (step.step) {
      case "acquire": {
        const { waitMs, leaseSeconds, mayWait } = step;
        const client = this.#client(step.who);
        const limit = step.otherLimit ?? this.model.limit;
        const command = { session: client.id, request: this.#id("l"), limit, waitMs, leaseSeconds, mayWait };
        this.#ask(client, { do: "acquire", command });
        return;
      }
      case "enqueue": {
        const client = this.#client(step.who);
        const limit = step.otherLimit ?? this.model.limit;
        const command = { session: client.id, request: this.#id("e"), limit, leaseSeconds: step.leaseSeconds };
        this.#ask(client, { do: "enqueue", command });
        return;
      }
      case "wait": {
        const { waitMs, mayWait } = step;
        const client = this.#client(step.who);
        const command = { session: client.id, request: this.#id("w"), waitMs, mayWait };
        if (step.takesOver) this.#takeOver(client, command);
        else this.#ask(client, { do: "wait", command });
        return;
      }
      case "release": {
        const token = at(this.#tokens, step.token) ?? "never given";
        const owner = this.model.holds.find((hold) => hold.token === token)?.session;
        const session = (step.isOwn ? owner : undefined) ?? this.#client(step.who).id;
        this.#agree({ do: "release", token, session }, () => this.model.release(token, session, this.now));
        return;
      }
      case "steal": {
        const held = this.model.holds.map(({ token }) => token);
        const fence = (at(step.isHeld ? held : this.#tokens, step.hold) ?? SALT).slice(0, 16);
        this.#agree({ do: "steal", fence }, () => this.model.steal(fence, this.now));
        return;
      }
      case "renew": {
        const token = at(this.#tokens, step.token) ?? "never given";
        const { leaseSeconds } = step;
        this.#agree({ do: "renew", token, leaseSeconds }, () => this.model.renew(token, leaseSeconds, this.now));
        return;
      }
      case "claim": {
        const { kind, mark, waitMs, leaseSeconds } = step;
        const claimant = { id: this.#id("file"), running: new Set<string>() };
        this.#claimants.push(claimant);
        const sessionless = { kind, note: claimant.id, tag: `tag of ${claimant.id}`, mark: markOf(mark) };
        const command = { session: claimant.id, request: this.#id("c"), waitMs, leaseSeconds, sessionless };
        this.#ask(claimant, { do: "claim", command });
        return;
      }
      case "refresh": {
        const { kind, leaseSeconds } = step;
        const command = { kind, which: this.#which(step.which), leaseSeconds, tag: leaseSeconds ? "new" : undefined };
        this.#agree({ do: "refresh", command }, (seen) => this.model.refresh(command, this.now, seen));
        return;
      }
      case "remove": {
        const selector = { kind: step.kind, which: this.#which(step.which) };
        this.#agree({ do: "remove", selector }, () => this.model.remove(selector, this.now));
        return;
      }
      case "misuse": {
        const token = (at(this.#tokens, step.token) ?? SALT + SALT).replace(/.$/, (last) => (last === "0" ? "1" : "0"));
        const session = this.#client(step.who).id;
        const released = this.#agree({ do: "release", token, session }, () =>
          this.model.release(token, session, this.now),
        );
        assert.deepEqual(released.outcome, { status: "not_held" });
        this.#agree({ do: "renew", token, leaseSeconds: 9 }, () => this.model.renew(token, 9, this.now));
        return;
      }
      case "cancel":
        this.#cancel(at(this.#asked, step.request)?.command.request ?? "unknown");
        return;
      case "repeat":
        this.#repeat(at(this.#asked, step.request));
        return;
      case "leave": {
        const { id } = this.#client(step.who);
        const { keepsReported } = step;
        this.#agree({ do: "leave", session: id, keepsReported }, () => this.model.leave(id, keepsReported, this.now));
        for (const { command } of this.#asked) if (command.session === id) this.#kill(command.request);
        // Sessions never come back: the client's next connection is another one.
        this.#clients = this.#clients.map((client) => (client.id === id ? this.#newClient() : client));
        return;
      }
      case "jump":
        this.#jump(step.jump);
        return;
      case "tick":
        this.tick();
        return;
      case "deliver":
        this.#deliver(step.notice, step.how);
        return;
      case "reload":
        this.#reload(step.losesNotices);
        return;
      case "prune":
        this.tick();
        if (!this.key.engine.isPrunable(this.#context()) || this.key.engine.hasNews) return;
        this.#agree({ do: "prune", limit: step.limit }, () => this.model.prune(step.limit, this.now));
        this.#isFreshlyLoaded = true;
        return;
    }
  }

  tick(): Result {
    return this.#agree({ do: "tick" }, () => this.model.evaluate(this.now));
  }

  /** Everybody hears everything, leaves, and time passes: nothing may be left. */
  endAll(): void {
    while (this.#inFlight.length > 0) this.#deliver(0, "honest");
    for (let who = 0; who < SESSIONS; who += 1) this.take({ step: "leave", who, keepsReported: false });
    // By now only claims wait, or have not heard of their grant.
    const unheard = () => this.model.queue[0] ?? this.model.holds.find(({ unanswered }) => unanswered);
    for (let claim = unheard(); claim; claim = unheard()) this.#cancel(claim.request);
    while (this.#inFlight.length > 0) this.#deliver(0, "honest");
    // Who has no session does not leave: its lease ends, maybe by a clock that has been set back since.
    const ends = this.model.holds.map(({ expiresAt }) => expiresAt);
    this.now = Math.max(this.now, this.model.activity.latest, ...ends) + this.rules.gcMaxIdleMs + 40_000_000;
    this.tick();
    while (this.#inFlight.length > 0) this.#deliver(0, "honest");
    const { rows, engine } = this.key;
    assert.deepEqual(
      [...rows.slots.values()].filter(({ isHeld }) => isHeld),
      [],
    );
    assert.deepEqual([...rows.waiters.values()], []);
    assert.deepEqual([...rows.lapsed], []);
    assert.ok(engine.isPrunable(this.#context()));
    assert.equal(engine.hasNews, false);
    this.#counts.settle();
  }

  #which(selected: Selected): Which {
    if (selected.by === "any") return { by: "any" };
    if (selected.by === "mark") return { by: "mark", mark: markOf(selected.pick) };
    const fences = [...this.#known].map((token) => token.slice(0, 16));
    return { by: "fence", fences: [at(fences, selected.pick) ?? SALT, SALT] };
  }

  #find(session: string): Client | undefined {
    return [...this.#clients, ...this.#claimants].find(({ id }) => id === session);
  }

  #client(who: Pick): Client {
    return this.#clients[who % SESSIONS] as Client;
  }

  /**
   * A session may have a new record while the time-out of its last one has not been heard. The time-out is decided
   * again at once, so that no clock set back gives the session two records; that case is not promised anything.
   */
  #reload(losesNotices: boolean): void {
    const doubtful = this.model.outlivedRecords();
    for (const { request } of doubtful.filter(({ deadline }) => deadline > this.now)) {
      this.#agree({ do: "answer", request, answer: "taken" }, () => this.model.answer(request, "taken", this.now));
    }
    this.#agree({ do: "reload" }, () => this.model.reload(this.#shownActivity()));
    this.#isFreshlyLoaded = true;
    this.#notices.clear();
    if (losesNotices) this.#inFlight = [];
    if (doubtful.length > 0) this.tick();
  }

  #shownActivity(): number {
    const { key, slots } = this.key.rows;
    const times = [...slots.values()].map(({ isHeld, since, expiresAt }) => (isHeld ? since : expiresAt));
    return Math.max(key.foundedAt, ...times);
  }

  #newClient(): Client {
    return { id: this.#id("session"), running: new Set() };
  }

  #id(kind: string): string {
    this.#ids += 1;
    return `${kind}${this.#ids}`;
  }

  #context(now = this.now): CommandContext {
    return { now, salt: () => SALT, ...this.rules };
  }

  #ask(client: Client, call: Asked): void {
    this.#asked.push(call);
    this.#hear(client, call, this.#put(call).outcome);
  }

  /** A client whose session has forgotten the waits it had in progress. */
  #takeOver(client: Client, command: Wait): void {
    const earlier = this.#asked.filter(({ do: kind, command: { request } }) => {
      return kind === "wait" && client.running.delete(request);
    });
    this.#ask(client, { do: "wait", command: { ...command, takesOver: true } });
    for (const { command } of earlier) this.#kill(command.request);
  }

  #put(call: Asked): Result {
    return this.#agree(call, (seen) => {
      if (call.do === "acquire") return this.model.acquire(call.command, this.now, seen);
      if (call.do === "enqueue") return this.model.enqueue(call.command, this.now, seen);
      if (call.do === "claim") return this.model.claim(call.command, this.now, seen);
      return this.model.wait(call.command, this.now);
    });
  }

  #hear(client: Client, { do: kind, command }: Asked, outcome: unknown): void {
    const { status, token } = outcome as { status: string; token?: string };
    if (status === "queued" && kind !== "enqueue") client.running.add(command.request);
    if (token !== undefined) this.#tokens.push(token);
  }

  /** A call whose reply was lost is made again. */
  #repeat(call: Asked | undefined): void {
    const client = call && this.#clients.find(({ id }) => id === call.command.session);
    if (!call || !client || this.model.isSuperseded(call.command.request)) return;
    this.tick();
    const expected = this.model.repeat(call.command.request);
    if (expected) this.#agree(call, () => expected);
  }

  #cancel(request: string): void {
    if (this.model.isSuperseded(request)) return;
    this.#agree({ do: "cancel", request }, () => this.model.cancel(request, this.now));
    for (const { running } of [...this.#clients, ...this.#claimants]) running.delete(request);
    this.#kill(request);
  }

  /** A request is over for its session. Unless the key still has something of it, it must stay over. */
  #kill(request: string): void {
    if (!this.model.repeat(request)) this.#dead.add(request);
  }

  #jump(jump: Jump): void {
    switch (jump.to) {
      case "later":
        this.now += jump.ms;
        return;
      case "earlier":
        this.now -= jump.ms;
        this.#clockWentBack = true;
        return;
      case "deadline": {
        const ends = this.model.holds.map(({ expiresAt }) => expiresAt);
        const deadlines = this.model.queue.map(({ deadline }) => deadline);
        const times = [...ends, ...deadlines].filter((time) => Number.isFinite(time) && time + jump.off > this.now);
        this.now = (at(times, jump.pick) ?? this.now - jump.off) + jump.off;
        return;
      }
      case "wake": {
        const wake = this.#wake();
        if (Number.isFinite(wake) && wake > this.now) this.now = wake;
        this.tick();
        return;
      }
    }
  }

  #wake(): number {
    return this.key.engine.nextWake({ gcMaxIdleMs: this.rules.gcMaxIdleMs, graceMs: GRACE_MS });
  }

  #deliver(pick: Pick, how: Delivery): void {
    const notice = at(this.#inFlight, pick);
    if (!notice) return;
    if (how !== "twice") this.#inFlight = this.#inFlight.filter((other) => other !== notice);
    if (how === "lost") return;
    const answer = this.#answerTo(notice, how);
    if (how === "answer lost") return;
    const { request } = notice;
    this.#agree({ do: "answer", request, answer }, () => this.model.answer(request, answer, this.now));
    if (answer === "taken" || answer === "gone") this.#kill(request);
  }

  #answerTo(notice: News, how: Delivery): Answer {
    if (how === "gone") return this.#disown(notice);
    if (how === "detached") return "later";
    // Only a `wait` has a place that another one may ask for.
    if (how === "cut off" && notice.request.startsWith("w")) {
      this.#disown(notice);
      return "noted";
    }
    return this.#hearNotice(notice);
  }

  /** A session that has forgotten the request, as after a crash. */
  #disown({ session, request }: News): Answer {
    this.#find(session)?.running.delete(request);
    return "gone";
  }

  /** What a session does with a notice. */
  #hearNotice({ session, request, kind }: News): Answer {
    const client = this.#find(session);
    if (!client) return "gone";
    if (kind === "promoted") return "noted";
    if (!client.running.has(request)) return "gone";
    if (kind === "granted") {
      const isClaim = this.#claimants.includes(client);
      const { outcome } = isClaim
        ? this.#agree({ do: "collect", request }, () => this.model.collect(request, this.now))
        : this.#agree({ do: "pickUp", request }, () => this.model.pickUp(request, this.now));
      const { status, token } = outcome as { status: string; token?: string };
      if (status === "queued" || status === "unknown") return "gone";
      if (token !== undefined) this.#tokens.push(token);
    }
    client.running.delete(request);
    return "taken";
  }

  /** Puts one call to both, compares what they say, and checks that all is well. */
  #agree(call: Call, predict: (seen: Seen) => unknown): Result {
    this.log.push({ call, now: this.now });
    const before = this.#before(call);
    const result = this.key.run(call, this.#context());
    this.model.begin(this.now);
    const expected = predict(this.#seen(result));
    assert.deepEqual(result.outcome, expected);
    this.#collect(result.events, before.pending);
    this.#counts.check(result, this.model);
    this.#giveUp();
    this.#checkRows();
    this.#checkHolders(call);
    this.#checkGrants();
    this.#checkWake(call);
    this.#checkCost(call, result, before);
    return result;
  }

  #seen({ outcome }: Result): Seen {
    const status = (outcome as { status?: string } | undefined)?.status;
    return { isMismatch: status === "limit_mismatch", hasNoLapses: this.key.rows.lapsed.size === 0 };
  }

  #before(call: Call) {
    const { session } = { session: "", ...call, ...("command" in call && call.command) };
    const { waiters, slots, lapsed } = this.key.rows;
    return {
      pending: this.model.pending(),
      own: [...waiters.values(), ...slots.values()].filter((row) => row.session === session).length,
      lapses: lapsed.size,
      waiters: waiters.size,
    };
  }

  /** Every piece of news is told at once; nothing is told that is not so; losses are told exactly once. */
  #collect(events: readonly KeyEvent[], pendingBefore: readonly News[]): void {
    const { news, losses } = this.model;
    const lost = events.flatMap((event) => (event.type === "lost" ? [event] : []));
    const bySession = (a: { token: string }, b: { token: string }) => (a.token < b.token ? -1 : 1);
    assert.deepEqual(lost.sort(bySession), losses.map((loss) => ({ type: "lost", ...loss })).sort(bySession));
    const notices = events.flatMap((event) => (event.type === "notice" ? [event] : []));
    const isSame = (a: News) => (b: News) => a.session === b.session && a.request === b.request && a.kind === b.kind;
    const told = notices.map(({ session, request, kind }) => ({ session, request, kind }));
    // What was decided before a reload is decided again.
    const mayBeTold = [...news, ...pendingBefore];
    for (const notice of told) assert.equal(mayBeTold.filter(isSame(notice)).length, 1, `true: ${notice.request}`);
    for (const item of news) assert.equal(told.filter(isSame(item)).length, 1, `told: ${item.request} ${item.kind}`);
    for (const notice of told) this.#notices.set(notice.request, (this.#notices.get(notice.request) ?? 0) + 1);
    this.#inFlight.push(...told);
  }

  #giveUp(): void {
    const stored = new Set([...this.key.rows.waiters.values()].map((row) => row.waitRequest ?? row.request));
    for (const { request, kind } of this.model.pending()) {
      const isOver = kind === "timeout" || kind === "lease_expired";
      if (isOver && !stored.has(request) && (this.#notices.get(request) ?? 0) >= MOST_NOTICES)
        this.model.giveUp(request);
    }
  }

  #checkRows(): void {
    const { rows, engine } = this.key;
    assert.equal(rows.key.limit, this.model.limit);
    assert.equal(engine.lastFence, this.model.lastFence);
    const held = [...rows.slots.values()].filter(({ isHeld }) => isHeld).map(({ index, place, ...row }) => row);
    assert.deepEqual(held.sort(byToken), this.model.slotRows().sort(byToken));
    const waiters = [...rows.waiters.values()].sort((a, b) => a.place - b.place);
    assert.deepEqual(
      waiters.map(({ place, ...row }) => row),
      this.model.waiterRows(),
    );
    assert.deepEqual(new Map(rows.lapsed), this.model.lapsed);
  }

  #checkHolders(call: Call): void {
    const { limit, holders, waiters } = this.key.engine.view();
    assert.equal(holders.length, this.model.holds.length);
    assert.equal(waiters, this.model.queue.length);
    assert.ok(holders.filter(({ expiresAt }) => expiresAt > this.now).length <= limit, "at most `limit` holders");
    const isDecided = call.do !== "reload" && call.do !== "answer";
    assert.ok(!(isDecided && holders.length < limit && waiters > 0), "a free slot beside a waiter");
  }

  #checkGrants(): void {
    const fresh = [...this.key.rows.slots.values()].filter(({ isHeld, token }) => isHeld && !this.#known.has(token));
    for (const { token, request } of fresh.sort(byToken)) {
      assert.match(token, /^[0-9a-f]{32}$/);
      const fence = BigInt(`0x${token.slice(0, 16)}`);
      assert.ok(fence > this.#highest, "the fence rises");
      assert.ok(!this.#dead.has(request), `${request} is over`);
      this.#highest = fence;
      this.#known.add(token);
    }
    const served = this.model.promoted.map(({ place }) => place);
    assert.deepEqual(
      served,
      [...served].sort((a, b) => a - b),
    );
    const waiting = this.model.queue.map(({ place }) => place);
    assert.ok(Math.max(0, ...served) < Math.min(Number.MAX_VALUE, ...waiting), "nobody is overtaken");
  }

  #checkWake(call: Call): void {
    const wake = this.#wake();
    for (const { expiresAt } of this.model.holds) assert.ok(wake <= expiresAt, "wakes in time");
    for (const { deadline } of this.model.queue) assert.ok(wake <= deadline, "wakes in time");
    const { gcMaxIdleMs } = this.rules;
    if (this.model.isIdle && this.model.pending().length === 0)
      assert.ok(wake <= this.model.activity.latest + gcMaxIdleMs + 1 + GRACE_MS, "wakes in time");
    if (!this.#clockWentBack) {
      if (this.model.pending().length > 0) assert.ok(wake <= this.now + 10_000, "wakes in time");
      const stillNew = this.model.pending().filter(({ request }) => this.#notices.get(request) === 1);
      if (this.model.news.length > 0 && stillNew.length > 0) assert.ok(wake <= this.now + 1_000, "wakes in time");
    }
    const hasTicked = call.do !== "reload" && call.do !== "prune" && call.do !== "answer";
    if (hasTicked) this.#isFreshlyLoaded = false;
    if (!this.#isFreshlyLoaded && hasTicked && !this.model.isIdle)
      assert.ok(wake > this.now, "does not wake for nothing");
  }

  /** Rows are paid for: their number follows what has changed, not how long the queue is. */
  #checkCost(
    call: Call,
    { rowsWritten, outcome }: Result,
    before: { own: number; lapses: number; waiters: number },
  ): void {
    const { grants, endings, promoted, news } = this.model;
    const settled = Math.max(0, before.waiters - this.key.rows.waiters.size);
    const own = call.do === "leave" ? before.own : 0;
    const lapsed = news.filter(({ kind }) => kind === "lease_expired").length;
    const bound = grants.length + 3 * endings + lapsed + before.lapses + settled + own + 3;
    assert.ok(rowsWritten <= bound, `${rowsWritten} rows, at most ${bound}`);
    if (before.waiters > 0 || before.lapses > 0 || endings + promoted.length > (call.do === "release" ? 1 : 0)) return;
    const status = (outcome as { status?: string } | undefined)?.status;
    const isPlain = (call.do === "acquire" && status === "granted") || (call.do === "release" && status === "released");
    if (isPlain && grants.length + endings <= 1)
      assert.ok(rowsWritten <= 1 + this.#limitRows(call), `${rowsWritten} rows`);
  }

  /** A key that starts anew with another limit writes that too. */
  #limitRows(call: Call): number {
    return call.do === "acquire" && this.model.grants.length === 1 && this.model.holds.length === 1 ? 1 : 0;
  }
}

/** The same calls at the same times on a fresh key. */
export function replay(log: World["log"], limit: number, rules: Circumstances): StoredEngine {
  const key = new StoredEngine(limit, START);
  for (const { call, now } of log) key.run(call, { now, salt: () => SALT, ...rules });
  return key;
}

function at<T>(list: readonly T[], pick: Pick): T | undefined {
  return list.length === 0 ? undefined : list[list.length - 1 - (pick % list.length)];
}

/** Few enough that some claims are made twice. */
const markOf = (pick: Pick) => ["0a", "0b", "0c"][pick % 3] as string;

function byToken(a: { token: string }, b: { token: string }): number {
  return a.token < b.token ? -1 : 1;
}
