/** One deployment of a group: a key as its object keeps it, the relay, and what can go wrong between them. */
import { type CommandContext, KeyEngine, type KeyEvent } from "../../src/core/engine/index.ts";
import type { Question, RelayEffect, RoundId } from "../../src/core/group/effects.ts";
import { orderOf } from "../../src/core/group/nonces.ts";
import { Relay } from "../../src/core/group/relay.ts";
import type { RelayReply } from "../../src/core/protocols/godistlock/relay.ts";
import { Rows } from "../engine/stored-engine.ts";
import type { Scheduler } from "./scheduler.ts";

export const LOCK = "lock";

export type Answer = Extract<RelayReply, { type: "stat" | "ack" | "conf" }>;

/** Defects that can be planted, to see that they are found. */
export interface Defects {
  /** One deployment fewer than a majority is enough. */
  readonly countsMinority?: true;
  /** Peers keep the lock for less time than the holder does. */
  readonly commitsTooShort?: true;
  /** Peers are not told fences. */
  readonly hidesFences?: true;
  /** Questions that were overtaken are not recognised. */
  readonly ignoresOrder?: true;
  /** A crash loses what the key has stored, except for its fence. */
  readonly forgetsHolds?: true;
}

export interface Surroundings {
  readonly scheduler: Scheduler;
  readonly ids: readonly string[];
  readonly defects: Defects;
  readonly isSteady: boolean;
  /** How often calls between key and relay are lost. */
  lossInside: number;
  send(from: string, to: string, message: Question | Answer): void;
  /** A client has the lock until `endsAt`. */
  granted(deployment: Deployment, fence: bigint): void;
  notified(deployment: Deployment, event: Extract<KeyEvent, { type: "notice" }>): void;
  prolonged(deployment: Deployment, call: string, isAgreed: boolean): void;
}

const GC = { gcMaxIdleMs: 60_000, graceMs: 2_500 };

export class Deployment {
  readonly id: string;
  isUp = true;
  engine: KeyEngine;
  readonly #around: Surroundings;
  readonly #rows: Rows;
  readonly #clockOffset: number;
  #relay: Relay;
  /** Rises with every start: what an earlier life has scheduled is void. */
  life = 0;
  #salt = 0;
  /** A grant that is announced twice is one grant. */
  #lastGranted = "";
  readonly #keyAlarm = new Alarm(this, () => this.run((engine, context) => engine.tick(context)));
  readonly #relayAlarm = new Alarm(this, () => {
    this.#relay.tick(this.now);
    this.#act();
  });

  constructor(id: string, around: Surroundings) {
    this.id = id;
    this.#around = around;
    this.#clockOffset = around.scheduler.between(1, 10_000_000);
    this.#rows = new Rows({ limit: 1, fence: 0n, foundedAt: this.now });
    this.engine = new KeyEngine(this.#rows.load());
    this.#relay = this.#newRelay();
  }

  /** This deployment's own clock: as fast as all others, and set differently. */
  get now(): number {
    return this.#around.scheduler.now + this.#clockOffset;
  }

  crash(): void {
    this.isUp = false;
    this.life += 1;
  }

  start(): void {
    this.isUp = true;
    this.#keyAlarm.clear();
    this.#relayAlarm.clear();
    const stored = this.#rows.load();
    const { defects } = this.#around;
    this.engine = new KeyEngine(defects.forgetsHolds ? { ...stored, slots: [], fence: this.engine.lastFence } : stored);
    this.#relay = this.#newRelay();
    this.run((engine, context) => engine.tick(context));
  }

  /** Runs a command at the key: decides, stores, then speaks. */
  run<Outcome>(command: (engine: KeyEngine, context: CommandContext) => Outcome): Outcome {
    const outcome = command(this.engine, this.#context());
    this.#rows.write(this.engine.takeChanges());
    this.engine.takeObservations();
    for (const event of this.engine.takeEvents()) this.#tell(event);
    if (!this.engine.isPrunable(this.#context())) this.#keyAlarm.by(this.engine.nextWake(GC));
    return outcome;
  }

  /** Later, if this deployment does not crash before. */
  later(ms: number, task: () => void): void {
    const { life } = this;
    this.#around.scheduler.after(ms, () => {
      if (this.isUp && this.life === life) task();
    });
  }

  receive(from: string, message: Question | Answer): void {
    if (!this.isUp) return;
    if (isAnswer(message)) {
      this.#relay.heard(from, message, this.now);
      this.#act();
      return;
    }
    const answer = this.#answer(from, message);
    if (answer) this.#around.send(this.id, from, answer);
  }

  unreachable(peer: string): void {
    this.#relay.unreachable(peer, this.now);
    this.#act();
  }

  prolong(call: string, fence: bigint, commitMs: number): void {
    this.#toRelay(() => this.#relay.prolong({ lock: LOCK, call, fence, commitMs }, this.now));
  }

  #context(): CommandContext {
    const salt = () => (++this.#salt).toString(16).padStart(16, "0");
    return { now: this.now, salt, fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: GC.gcMaxIdleMs };
  }

  #newRelay(): Relay {
    const { ids, scheduler, defects } = this.#around;
    const majority = Math.floor(ids.length / 2) + 1;
    return new Relay({
      peers: ids.filter((id) => id !== this.id),
      need: defects.countsMinority ? majority - 1 : majority,
      epoch: this.now,
      random: () => scheduler.random(),
    });
  }

  #answer(relay: string, question: Question): Answer | undefined {
    const { defects } = this.#around;
    const order = defects.ignoresOrder ? undefined : orderOf(question.nonce);
    const asker = { relay, ...(order !== undefined && { order }) };
    const { nonce } = question;
    switch (question.type) {
      case "prop": {
        const { status, floor } = this.run((engine, context) =>
          engine.relays.ask({ ...asker, type: "propose" }, context),
        );
        const code = { agreed: 0, held: 1, held_for_another: 2, not_held: 1 }[status];
        return { type: "stat", nonce, status: code, ...(!defects.hidesFences && { floor }) };
      }
      case "sched": {
        const { status } = this.run((engine, context) => engine.relays.ask({ ...asker, type: "schedule" }, context));
        return { type: "ack", nonce, status: status === "agreed" ? 0 : 1 };
      }
      case "comm": {
        const leaseMs = defects.commitsTooShort ? Math.max(1, question.timeoutMs - 2_000) : question.timeoutMs;
        const fence = defects.hidesFences || question.fence === undefined ? undefined : { fence: question.fence };
        const asked = { ...asker, type: "commit", leaseMs, ...fence } as const;
        const { status } = this.run((engine, context) => engine.relays.ask(asked, context));
        return { type: "conf", nonce, status: status === "agreed" ? 0 : 1 };
      }
      case "off":
        this.run((engine, context) => engine.relays.ask({ ...asker, type: "off" }, context));
        return undefined;
    }
  }

  #tell(event: KeyEvent): void {
    if (event.type === "notice") this.later(this.#latency(), () => this.#around.notified(this, event));
    else if (event.type === "round") {
      const { request, mark, leaseMs } = event;
      this.#toRelay(() => this.#relay.begin({ lock: LOCK, request, mark, leaseMs }, this.now));
    } else if (event.type === "round_over") {
      const { request, mark } = event;
      this.#toRelay(() => this.#relay.over({ lock: LOCK, request, mark }, this.now));
    }
  }

  #toRelay(call: () => void): void {
    if (this.#around.scheduler.happens(this.#around.lossInside)) return;
    this.later(this.#latency(), () => {
      call();
      this.#act();
    });
  }

  #latency(): number {
    const { scheduler, isSteady } = this.#around;
    return !isSteady && scheduler.happens(0.02) ? scheduler.between(0, 1_500) : scheduler.between(0, 5);
  }

  /** Does what the relay wants done. */
  #act(): void {
    for (const effect of this.#relay.takeEffects()) this.#perform(effect);
    this.#relayAlarm.by(this.#relay.nextWake);
  }

  #perform(effect: RelayEffect): void {
    switch (effect.type) {
      case "send":
        this.#around.send(this.id, effect.peer, effect.question);
        break;
      case "prolonged":
        this.#around.prolonged(this, effect.call, effect.isAgreed);
        break;
      case "keep":
        this.#atKey(
          (engine, context) => engine.rounds.keep(effect, context),
          (isKept) => this.#relay.kept(effect, isKept ?? false, this.now),
        );
        break;
      case "fence":
        this.#atKey(
          (engine, context) => engine.rounds.fence(effect, effect.floor, context),
          (fence) => this.#relay.fenced(effect, fence, this.now),
        );
        break;
      case "agree":
        this.#atKey(
          (engine, context) => this.#agree(effect, engine, context),
          // An outcome that is not known may be a grant: the peers keep the lock until their time is up.
          (isHeld) => this.#relay.agreed(effect, isHeld ?? true, this.now),
        );
        break;
      case "fail":
        this.#atKey(
          (engine, context) => engine.rounds.fail(effect, effect.end, context),
          () => {},
        );
    }
  }

  #agree(round: RoundId, engine: KeyEngine, context: CommandContext): boolean {
    const isHeld = engine.rounds.agree(round, context);
    if (isHeld && this.#lastGranted !== round.mark) this.#around.granted(this, BigInt(`0x${round.mark}`));
    if (isHeld) this.#lastGranted = round.mark;
    return isHeld;
  }

  /** A call to the key and its reply, either of which may be lost: then the relay is told that it does not know. */
  #atKey<Outcome>(
    call: (engine: KeyEngine, context: CommandContext) => Outcome,
    reply: (outcome: Outcome | undefined) => void,
  ): void {
    const { scheduler, lossInside } = this.#around;
    const replied = (outcome: Outcome | undefined) => {
      reply(outcome);
      this.#act();
    };
    if (scheduler.happens(lossInside)) {
      this.later(this.#latency(), () => replied(undefined));
      return;
    }
    this.later(this.#latency(), () => {
      const outcome = this.run(call);
      if (!scheduler.happens(lossInside)) this.later(this.#latency(), () => replied(outcome));
      // Some calls whose reply was lost are made again.
      else if (scheduler.happens(0.5)) this.#atKey(call, reply);
      else this.later(this.#latency(), () => replied(undefined));
    });
  }
}

/** One alarm, at the earliest time it was set to. */
class Alarm {
  readonly #of: Deployment;
  readonly #ring: () => void;
  #at = Number.POSITIVE_INFINITY;

  constructor(of: Deployment, ring: () => void) {
    this.#of = of;
    this.#ring = ring;
  }

  by(time: number): void {
    if (time >= this.#at) return;
    this.#at = time;
    this.#of.later(Math.max(0, Math.ceil(time - this.#of.now)), () => {
      if (this.#at !== time) return;
      this.#at = Number.POSITIVE_INFINITY;
      this.#ring();
    });
  }

  clear(): void {
    this.#at = Number.POSITIVE_INFINITY;
  }
}

function isAnswer(message: Question | Answer): message is Answer {
  return message.type === "stat" || message.type === "ack" || message.type === "conf";
}
