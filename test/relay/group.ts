/** A group of deployments, their clients, and a network that loses, delays, doubles and reorders what it carries. */
import assert from "node:assert/strict";
import type { KeyEvent } from "../../src/core/engine/index.ts";
import type { Question } from "../../src/core/group/effects.ts";
import { type Answer, type Defects, Deployment, type Surroundings } from "./deployment.ts";
import { Scheduler } from "./scheduler.ts";

export interface Weather {
  readonly loss: number;
  readonly duplicates: number;
  /** How often a message takes seconds. */
  readonly delays: number;
  readonly crashes: boolean;
  readonly lossInside: number;
  /** Messages of a link arrive in the order in which they were sent, and no step takes long. */
  readonly isSteady?: true;
}

const CALM: Weather = { loss: 0, duplicates: 0, delays: 0, crashes: false, lossInside: 0 };

interface Client {
  readonly session: string;
  readonly request: string;
  readonly at: Deployment;
  readonly life: number;
  readonly leaseMs: number;
  readonly isOnce: boolean;
  /** Holds for this long, and comes back at once. */
  readonly cycleMs?: number;
  state: "waiting" | "holding" | "done";
  token: string;
}

export class Group implements Surroundings {
  readonly scheduler: Scheduler;
  readonly ids: readonly string[];
  readonly defects: Defects;
  readonly deployments: Deployment[];
  readonly clients = new Map<string, Client>();
  #weather: Weather;
  #clientCount = 0;
  #highestFence = 0n;
  #prolongations = new Map<string, (isAgreed: boolean) => void>();
  /** When the last message of a link arrives. */
  readonly #arrivals = new Map<string, number>();
  grants = 0;

  constructor(seed: number, size: number, weather: Weather, defects: Defects = {}) {
    this.scheduler = new Scheduler(seed);
    this.ids = Array.from({ length: size }, (_, index) => `s${index}`);
    this.defects = defects;
    this.#weather = weather;
    this.deployments = this.ids.map((id) => new Deployment(id, this));
  }

  get isSteady(): boolean {
    return this.#weather.isSteady === true;
  }

  get lossInside(): number {
    return this.#weather.lossInside;
  }

  /** Everything happens for this long. Clients come and go, deployments crash if the weather is like that. */
  live(ms: number): void {
    const { scheduler } = this;
    const ends = scheduler.now + ms;
    const arrive = () => {
      if (scheduler.now >= ends) return;
      this.#arrive(scheduler.pick(this.deployments));
      scheduler.after(scheduler.between(0, 600), arrive);
    };
    arrive();
    if (this.#weather.crashes) this.#crashUntil(ends);
    scheduler.runUntil(ends, () => this.check());
  }

  /** A client that takes the lock, holds it for this long and asks again, for ever. */
  cycle(at: Deployment, cycleMs: number): Client {
    return this.#ask({ at, isOnce: false, leaseMs: 60_000, cycleMs });
  }

  /** All deployments are up and messages flow from now on. */
  calmDown(): void {
    this.#weather = CALM;
    for (const deployment of this.deployments) if (!deployment.isUp) deployment.start();
  }

  pass(ms: number): void {
    this.scheduler.runUntil(this.scheduler.now + ms, () => this.check());
  }

  /** Clients that wait where they asked, and have not been cut off by a crash. */
  get waiting(): Client[] {
    return [...this.clients.values()].filter(({ state, at, life }) => state === "waiting" && at.life === life);
  }

  /** Never two holders, at any moment. */
  check(): void {
    const holders = this.deployments.filter((each) => this.#holds(each));
    assert.ok(holders.length <= 1, `${holders.map(({ id }) => id).join(" and ")} hold at ${this.scheduler.now}`);
  }

  /** A crashed deployment's client still believes in its lease. */
  #holds({ engine, now }: Deployment): boolean {
    return engine.view().holders.some(({ session, expiresAt }) => {
      const client = this.clients.get(session);
      return client !== undefined && client.token !== "" && expiresAt > now;
    });
  }

  send(from: string, to: string, message: Question | Answer): void {
    const { loss, duplicates, delays } = this.#weather;
    const { scheduler } = this;
    const target = this.deployments.find(({ id }) => id === to) as Deployment;
    const carry = () => {
      const ms = scheduler.happens(delays) ? scheduler.between(200, 4_000) : scheduler.between(1, 40);
      scheduler.after(this.#inOrder(`${from} ${to}`, ms), () => {
        target.receive(from, message);
      });
    };
    if (scheduler.happens(loss)) {
      // Some losses are noticed, as when a connection is refused.
      const sender = this.deployments.find(({ id }) => id === from);
      if (scheduler.happens(0.3)) sender?.later(scheduler.between(0, 100), () => sender.unreachable(to));
      return;
    }
    carry();
    if (scheduler.happens(duplicates)) carry();
  }

  #inOrder(link: string, ms: number): number {
    if (!this.isSteady) return ms;
    const { now } = this.scheduler;
    const at = Math.max(now + ms, this.#arrivals.get(link) ?? 0);
    this.#arrivals.set(link, at);
    return at - now;
  }

  granted(deployment: Deployment, fence: bigint): void {
    assert.ok(fence > this.#highestFence, `fence ${fence} of ${deployment.id} after ${this.#highestFence}`);
    this.#highestFence = fence;
    this.grants += 1;
    const { holders } = deployment.engine.view();
    const client = this.clients.get(holders[0]?.session ?? "");
    // From here on the client may be told any moment.
    if (client) client.token = "promised";
  }

  notified(deployment: Deployment, event: Extract<KeyEvent, { type: "notice" }>): void {
    const client = this.clients.get(event.session);
    const isThere = client?.state === "waiting" && client.at === deployment && client.life === deployment.life;
    if (!isThere) {
      deployment.run((engine, context) => engine.answer(event.request, "gone", context));
      return;
    }
    const outcome = deployment.run((engine, context) => engine.pickUp(event.request, context));
    if (outcome.status === "granted") this.#hold(client, outcome.token);
    else if (outcome.status !== "queued") client.state = "done";
    if (outcome.status !== "queued")
      deployment.run((engine, context) => engine.answer(event.request, "taken", context));
  }

  prolonged(_: Deployment, call: string, isAgreed: boolean): void {
    this.#prolongations.get(call)?.(isAgreed);
    this.#prolongations.delete(call);
  }

  #arrive(at: Deployment): void {
    if (!at.isUp) return;
    const { scheduler } = this;
    const isOnce = scheduler.happens(0.4);
    const leaseMs = scheduler.between(200, 4_000);
    const client = this.#ask({ at, isOnce, leaseMs });
    const isWaiting = client.state === "waiting";
    if (isWaiting && scheduler.happens(0.1)) at.later(scheduler.between(0, 2_000), () => this.#leave(client));
  }

  #ask(asked: Pick<Client, "at" | "isOnce" | "leaseMs" | "cycleMs">): Client {
    const { at, isOnce, leaseMs } = asked;
    const session = `c${++this.#clientCount}`;
    const request = `${session}.r`;
    const client: Client = { ...asked, session, request, life: at.life, state: "waiting", token: "" };
    this.clients.set(session, client);
    const quorum = isOnce ? "once" : "until_agreed";
    const command = { session, request, limit: 1, leaseSeconds: leaseMs / 1000, waitMs: 0, mayWait: true } as const;
    const outcome = at.run((engine, context) => engine.acquire({ ...command, quorum }, context));
    if (outcome.status !== "queued") client.state = "done";
    return client;
  }

  #hold(client: Client, token: string): void {
    const { scheduler } = this;
    const { at } = client;
    client.state = "holding";
    client.token = token;
    const release = () => {
      at.run((engine, context) => engine.release(token, client.session, context));
      client.state = "done";
    };
    if (client.cycleMs !== undefined) {
      at.later(client.cycleMs, () => {
        release();
        this.#ask(client);
      });
      return;
    }
    const what = scheduler.random();
    if (what < 0.5) at.later(scheduler.between(0, client.leaseMs), release);
    else if (what < 0.65) at.later(scheduler.between(0, client.leaseMs), () => this.#leave(client));
    else if (what < 0.85) at.later(scheduler.between(0, client.leaseMs), () => this.#prolong(client, release));
    else client.state = "done";
  }

  #prolong(client: Client, release: () => void): void {
    const { scheduler } = this;
    const { at, token, session } = client;
    const agreed = at.run((engine, context) => engine.rounds.agreed(token, session, context));
    if (!agreed) return;
    const call = `${session}@${scheduler.now}`;
    const leaseMs = scheduler.between(100, 3_000);
    const askedAt = at.now;
    this.#prolongations.set(call, (isAgreed) => {
      if (isAgreed) at.run((engine, context) => engine.rounds.prolong(token, leaseMs, askedAt, context));
      at.later(scheduler.between(0, leaseMs), release);
    });
    at.prolong(call, agreed.fence, Math.max(leaseMs, Math.ceil(agreed.remainingMs)) + 1_000);
  }

  #leave(client: Client): void {
    client.state = "done";
    client.at.run((engine, context) => engine.leave(client.session, { keepsReported: false }, context));
  }

  #crashUntil(ends: number): void {
    const { scheduler } = this;
    const next = () => {
      if (scheduler.now >= ends) return;
      const victim = scheduler.pick(this.deployments);
      if (victim.isUp) {
        victim.crash();
        scheduler.after(scheduler.between(0, 3_000), () => {
          if (!victim.isUp) victim.start();
        });
      }
      scheduler.after(scheduler.between(50, 2_500), next);
    };
    scheduler.after(scheduler.between(50, 2_500), next);
  }
}
