/**
 * A key among clients that behave as badly as a network lets them: the engine with its rows on one side, the model on
 * the other. Every step goes to both, and the invariants are checked after each.
 */
import assert from "node:assert/strict";
import type {
  CancelOptions,
  ClaimCommand,
  CommandContext,
  NoticeAnswer,
  WaitCommand,
  Which,
} from "../../../src/core/engine/index.ts";
import { type Call, type Result, StoredEngine } from "../stored-engine.ts";
import { headOf, isSuperseded, outlivedRecords } from "./expectations.ts";
import { GroupWorld } from "./group-world.ts";
import { Invariants } from "./invariants.ts";
import { KeyModel } from "./key-model.ts";
import { SALT } from "./model-state.ts";
import { SessionlessModel } from "./sessionless-model.ts";
import { at, type Delivery, type Jump, type Pick, type Selected, type Step } from "./steps.ts";
import type { Notice, Rules, Seen } from "./types.ts";

const START = 1_700_000_000_000;
const SESSIONS = 4;
const OFFER_IS_FRESH_MS = 1_000;

interface Client {
  readonly id: string;
  /** Requests without an answer yet. */
  readonly running: Set<string>;
  /** Tokens that its session has handed over. */
  readonly told: Set<string>;
}

/** As many as a key remembers in any case. */
const MAX_ENDINGS = 4;

type Ending = Extract<Call, { do: "release" | "giveBack" | "remove" }>;
type Asked = Extract<Call, { do: "acquire" | "enqueue" | "wait" | "claim" }>;

export class World {
  readonly rules: Rules;
  readonly log: { readonly call: Call; readonly now: number }[] = [];
  readonly key: StoredEngine;
  readonly model: KeyModel;
  now = START;
  #clients: Client[] = [];
  /** Holders without a session: each makes one claim. */
  readonly #claimants: Client[] = [];
  #ids = 0;
  readonly #asked: Asked[] = [];
  readonly #tokens: string[] = [];
  /** Calls with an id that have ended a hold, newest first. */
  #endings: Ending[] = [];
  #inFlight: Notice[] = [];
  readonly #sessionless: SessionlessModel;
  readonly #group: GroupWorld;
  readonly #invariants: Invariants;

  constructor(limit: number, rules: Rules) {
    this.rules = rules;
    this.key = new StoredEngine(limit, START);
    this.model = new KeyModel(limit, START, rules);
    this.#sessionless = new SessionlessModel(this.model);
    this.#group = new GroupWorld(this.model, (call, predict) => this.#agree(call, (seen) => predict(this.now, seen)));
    this.#invariants = new Invariants(this.key, this.model, rules);
    for (let who = 0; who < SESSIONS; who += 1) this.#clients.push(this.#newClient());
  }

  take(step: Step): void {
    switch (step.step) {
      case "acquire": {
        const { waitMs, leaseSeconds, mayWait } = step;
        const client = this.#client(step.who);
        const limit = step.quorum ? 1 : (step.otherLimit ?? this.model.limit);
        const asked = { session: client.id, request: this.#id("l"), limit, waitMs, leaseSeconds, mayWait };
        const { quorum, asksWanted } = step;
        // Every other client wants to hear of the end of its leases.
        const watch = step.who % 2 === 0 ? ({ isWatched: true } as const) : {};
        const command = { ...asked, ...watch, ...(quorum && { quorum }), ...(asksWanted && { asksWanted }) };
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
      case "release":
      case "giveBack": {
        const token = at(this.#tokens, step.token) ?? "never given";
        const owner = this.model.holds.find((hold) => hold.token === token)?.session;
        const session = (step.isOwn ? owner : undefined) ?? this.#client(step.who).id;
        this.#end({ do: step.step, token, session, ...(step.isNamed && { id: this.#id("end") }) });
        return;
      }
      case "endAgain": {
        const ending = this.#endings[step.ending];
        if (ending) this.#end(ending);
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
        const { mark, waitMs, leaseSeconds, isOfWorker } = step;
        const claimant = { id: this.#id("file"), running: new Set<string>(), told: new Set<string>() };
        this.#claimants.push(claimant);
        const shown = { note: claimant.id, tag: `tag of ${claimant.id}` };
        const terms = { session: claimant.id, request: this.#id("c"), waitMs, leaseSeconds };
        const command: ClaimCommand = isOfWorker
          ? {
              ...terms,
              limit: this.model.limit,
              sessionless: { kind: "worker", ...shown },
              ...(!step.mayWait && { mayWait: false }),
            }
          : { ...terms, sessionless: { kind: step.kind, ...shown, mark: markOf(mark) } };
        this.#ask(claimant, { do: "claim", command });
        return;
      }
      case "refresh": {
        const { kind, leaseSeconds } = step;
        const command = { kind, which: this.#which(step.which), leaseSeconds, tag: leaseSeconds ? "new" : undefined };
        this.#agree({ do: "refresh", command }, (seen) => this.#sessionless.refresh(command, this.now, seen));
        return;
      }
      case "remove": {
        const selector = { kind: step.kind, which: this.#which(step.which) };
        this.#end({ do: "remove", selector, ...(step.isNamed && { id: this.#id("end") }) });
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
        this.#cancel(
          (step.isHead && headOf(this.model)) || (at(this.#asked, step.request)?.command.request ?? "unknown"),
          {
            ...(step.sparesKnown && ({ sparesKnown: true } as const)),
            ...(step.sparesPlace && ({ sparesPlace: true } as const)),
          },
        );
        return;
      case "forgo": {
        const { id } = this.#client(step.who);
        const how = step.sparesKnown ? ({ sparesKnown: true } as const) : {};
        const call = { do: "cancel", request: "never arrived", placeOf: id, ...how } as const;
        this.#agree(call, () => this.model.forgo(id, this.now, how));
        return;
      }
      case "repeat":
        this.#repeat(at(this.#asked, step.request));
        return;
      case "leave": {
        const { id } = this.#client(step.who);
        const { keepsReported } = step;
        this.#agree({ do: "leave", session: id, keepsReported }, () => this.model.leave(id, keepsReported, this.now));
        for (const { command } of this.#asked) if (command.session === id) this.#invariants.setOver(command.request);
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
        this.#endings = [];
        this.#invariants.pruned();
        return;
      default:
        this.#group.take(step, { tokens: this.#tokens, now: this.now });
    }
  }

  tick(): Result {
    return this.#agree({ do: "tick" }, () => this.model.evaluate(this.now));
  }

  /** All notices arrive, all clients leave, and time passes: nothing may be left. */
  endAll(): void {
    while (this.#inFlight.length > 0) this.#deliver(0, "honest");
    for (let who = 0; who < SESSIONS; who += 1) this.take({ step: "leave", who, keepsReported: false });
    // By now only claims wait, or have not picked up their grant.
    const unheard = () => this.model.queue[0] ?? this.model.holds.find(({ unanswered }) => unanswered);
    for (let claim = unheard(); claim; claim = unheard()) this.#cancel(claim.request);
    while (this.#inFlight.length > 0) this.#deliver(0, "honest");
    // Holders without a session do not leave: their lease ends, maybe by a clock that has been set back since.
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
    this.#invariants.counts.settle();
  }

  #end(call: Ending): void {
    this.#agree(call, () => {
      if (call.do === "remove") return this.#sessionless.remove(call.selector, this.now, call.id);
      return this.model[call.do](call.token, call.session, this.now, call.id);
    });
    const hasEnded = call.id !== undefined && this.model.endedBy[0] === call.id;
    if (hasEnded && this.#endings[0]?.id !== call.id) this.#endings = [call, ...this.#endings].slice(0, MAX_ENDINGS);
  }

  #which(selected: Selected): Which {
    if (selected.by === "any") return { by: "any" };
    if (selected.by === "mark") return { by: "mark", mark: markOf(selected.pick) };
    const fences = [...this.#invariants.tokens].map((token) => token.slice(0, 16));
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
   * again at once, so that no clock set back gives the session two records; for that case nothing is promised.
   */
  #reload(losesNotices: boolean): void {
    const doubtful = outlivedRecords(this.model);
    for (const { request } of doubtful.filter(({ deadline }) => deadline > this.now)) {
      this.#agree({ do: "answer", request, answer: "taken" }, () => this.model.answer(request, "taken", this.now));
    }
    this.#agree({ do: "reload" }, () => this.model.reload(this.#shownActivity()));
    this.#invariants.reloaded();
    if (losesNotices) this.#inFlight = [];
    if (doubtful.length > 0) this.tick();
  }

  #shownActivity(): number {
    const { key, slots } = this.key.rows;
    const times = [...slots.values()].map(({ isHeld, since, expiresAt }) => (isHeld ? since : expiresAt));
    return Math.max(key.foundedAt, ...times);
  }

  #newClient(): Client {
    return { id: this.#id("session"), running: new Set(), told: new Set() };
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

  /** For a client whose session has forgotten its waits in progress. */
  #takeOver(client: Client, command: WaitCommand): void {
    const earlier = this.#asked.filter(({ do: kind, command: { request } }) => {
      return kind === "wait" && client.running.delete(request);
    });
    this.#ask(client, { do: "wait", command: { ...command, takesOver: true } });
    for (const { command } of earlier) this.#invariants.setOver(command.request);
  }

  #put(call: Asked): Result {
    return this.#agree(call, (seen) => {
      if (call.do === "acquire") return this.model.acquire(call.command, this.now, seen);
      if (call.do === "enqueue") return this.model.enqueue(call.command, this.now, seen);
      if (call.do === "claim") return this.#sessionless.claim(call.command, this.now, seen);
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
    const client = call && this.#find(call.command.session);
    if (!call || !client || isSuperseded(this.model, call.command.request)) return;
    this.tick();
    const { request } = call.command;
    const expected = call.do === "claim" ? this.#sessionless.repeat(request, this.now) : this.model.repeat(request);
    if (expected) this.#agree(call, () => expected);
  }

  #cancel(request: string, options: CancelOptions = {}): void {
    if (isSuperseded(this.model, request)) return;
    this.#agree({ do: "cancel", request, ...options }, () => this.model.cancel(request, this.now, options));
    for (const { running } of [...this.#clients, ...this.#claimants]) running.delete(request);
    this.#invariants.setOver(request);
  }

  #jump(jump: Jump): void {
    switch (jump.to) {
      case "later":
        this.now += jump.ms;
        return;
      case "earlier":
        this.now -= jump.ms;
        this.#invariants.clockWentBack();
        return;
      case "deadline": {
        const ends = this.model.holds.map(({ expiresAt }) => expiresAt);
        const deadlines = this.model.queue.flatMap(({ deadline, pausedUntil }) => [deadline, pausedUntil]);
        const times = [...ends, ...deadlines].filter((time) => Number.isFinite(time) && time + jump.off > this.now);
        this.now = (at(times, jump.pick) ?? this.now - jump.off) + jump.off;
        return;
      }
      case "wake": {
        const { nextWake } = this.#invariants;
        if (Number.isFinite(nextWake) && nextWake > this.now) this.now = nextWake;
        this.tick();
        return;
      }
    }
  }

  #deliver(pick: Pick, how: Delivery): void {
    const notice = at(this.#inFlight, pick);
    if (!notice) return;
    if (how !== "twice") this.#inFlight = this.#inFlight.filter((other) => other !== notice);
    if (how === "lost") return;
    const answer = this.#answerTo(notice, how);
    if (how === "answer lost") return;
    const { request, offer } = notice;
    const offered = offer?.token;
    this.#agree({ do: "answer", request, answer, offered }, () =>
      this.model.answer(request, answer, this.now, offered),
    );
    if (answer === "taken" || answer === "gone") this.#invariants.setOver(request);
  }

  #answerTo(notice: Notice, how: Delivery): NoticeAnswer {
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
  #disown({ session, request, offer, mayBeTold }: Notice): NoticeAnswer {
    const client = this.#find(session);
    client?.running.delete(request);
    const isTold = mayBeTold || (offer && client?.told.has(offer.token));
    return isTold ? "taken" : "gone";
  }

  /** What a session does with a notice. */
  #hearNotice(notice: Notice): NoticeAnswer {
    const { session, request, kind, offer } = notice;
    const client = this.#find(session);
    // Its holds have ended with it.
    if (!client) return "gone";
    if (kind === "promoted") return "noted";
    if (!client.running.has(request)) return this.#disown(notice);
    if (offer && Math.abs(this.now - offer.at) <= OFFER_IS_FRESH_MS) {
      this.#tokens.push(offer.token);
      client.told.add(offer.token);
    } else if (kind === "granted") {
      const isClaim = this.#claimants.includes(client);
      const { outcome } = isClaim
        ? this.#agree({ do: "collect", request }, () => this.#sessionless.collect(request, this.now))
        : this.#agree({ do: "pickUp", request }, () => this.model.pickUp(request, this.now));
      const { status, token } = outcome as { status: string; token?: string };
      if (status === "queued" || status === "unknown") return "gone";
      if (token !== undefined) this.#tokens.push(token);
    }
    client.running.delete(request);
    return "taken";
  }

  /** Makes one call to both, compares the outcomes, and checks the invariants. */
  #agree(call: Call, predict: (seen: Seen) => unknown): Result {
    this.log.push({ call, now: this.now });
    const before = this.#invariants.before(call);
    const result = this.key.run(call, this.#context());
    this.#group.note(result.events);
    this.model.begin(this.now);
    const expected = predict(this.#seen(result));
    assert.deepEqual(result.outcome, expected);
    this.#inFlight.push(...this.#invariants.check(call, result, before, this.now));
    return result;
  }

  #seen({ outcome }: Result): Seen {
    const status = (outcome as { status?: string } | undefined)?.status;
    // Of an idle key, `held` says that it is no lock.
    const isMismatch = status === "limit_mismatch" || status === "held";
    return { isMismatch, hasNoLapses: this.key.rows.lapsed.size === 0 };
  }
}

/** The same calls at the same times on a fresh key. */
export function replay(log: World["log"], limit: number, rules: Rules): StoredEngine {
  const key = new StoredEngine(limit, START);
  for (const { call, now } of log) key.run(call, { now, salt: () => SALT, ...rules });
  return key;
}

/** Few enough that some claims repeat. */
const markOf = (pick: Pick) => ["0a", "0b", "0c"][pick % 3] as string;
