import type { NoticeAnswer } from "../../src/core/engine/index.ts";
import type { SessionContext, SessionOrigin } from "../../src/core/session/context.ts";
import type { Effect, Loss, Notice, Want } from "../../src/core/session/effects.ts";
import { CONFIG, origin, Stored } from "../session/stored.ts";
import type { World } from "./world.ts";

/** The machine that a host runs. */
export interface Machine {
  readonly context: SessionContext;
  readonly isOver: boolean;
  /** Something is in flight or about to be retried. */
  readonly isBusy: boolean;
  lose(loss: Loss): void;
  /** Only clients on sockets ask for it. */
  want?(want: Want): void;
  wake(): void;
  tick(due: number): void;
}

/** An alarm whose handler failed fires again after this time. */
const ALARM_AGAIN_MS = 2_000;

/**
 * A session's object. What one command stores is stored as a whole, before any other effect of it; then the object may
 * lose its memory after each effect.
 */
export abstract class SessionHost<Kind extends Machine = Machine> {
  readonly name: string;
  readonly stored = new Stored();
  protected readonly world: World;
  readonly #skew: number;
  /** The machine in memory; undefined while the object is not loaded. */
  protected machine: Kind | undefined;
  /** Incremented when the object loses its memory: answers to its earlier calls are lost. */
  protected life = 1;
  /** It has lost its memory while something was under way: what it withdrew may wait until its key finds out. */
  isInDoubt = false;
  #alarm = Number.POSITIVE_INFINITY;
  #timer = Number.POSITIVE_INFINITY;
  /** Timers go with the memory of their object. */
  #timerLife = 0;
  #lastNotice = 0;
  readonly #notices = new Map<number, (answer: NoticeAnswer | undefined) => void>();

  constructor(world: World, name: string) {
    this.world = world;
    this.name = name;
    this.#skew = world.skew();
    world.sessions.set(name, this);
  }

  get now(): number {
    return this.world.schedule.now + this.#skew;
  }

  deliver(notice: Notice, answered: (answer: NoticeAnswer | undefined) => void): void {
    this.arrives(
      () => this.#hear(notice, answered),
      () => answered(undefined),
    );
  }

  /** A call is never made twice to two lives of an object: a connection ends with the life that it leads to. */
  deliverAgain(notice: Notice, answered: (answer: NoticeAnswer | undefined) => void): void {
    const { life } = this;
    this.world.schedule.after(this.world.delay(), () => {
      if (this.life === life) this.#hear(notice, answered);
    });
  }

  #hear(notice: Notice, answered: (answer: NoticeAnswer | undefined) => void): void {
    this.#lastNotice += 1;
    const number = this.#lastNotice;
    this.#notices.set(number, answered);
    this.world.tell(`${this.name} hears ${notice.kind} ${notice.request} from ${notice.key}`);
    this.run((machine) => this.noticed(machine, number, notice));
  }

  lose(loss: Loss): void {
    this.arrives(() => {
      this.world.tell(`${this.name} hears that ${loss.token.slice(0, 16)} is ${loss.reason}`);
      this.run((machine) => machine.lose(loss));
    });
  }

  want(want: Want): void {
    this.arrives(() => {
      this.world.tell(`${this.name} hears that ${want.token.slice(0, 16)} is wanted`);
      this.run((machine) => machine.want?.(want));
    });
  }

  crash(): void {
    this.world.tell(`${this.name} loses its memory`);
    this.world.lifeEnded(`${this.name}/${this.life}`);
    this.life += 1;
    this.isInDoubt ||= this.machine?.isBusy === true || this.#notices.size > 0;
    this.machine = undefined;
    this.#timer = Number.POSITIVE_INFINITY;
    for (const answered of this.#notices.values()) answered(undefined);
    this.#notices.clear();
    this.lostMemory();
  }

  /** Makes the machine from what is stored. */
  protected abstract load(origin: SessionOrigin): Kind;
  /** Carries out what only this kind of session has. */
  protected abstract handle(effect: Effect, machine: Kind): void;
  protected abstract noticed(machine: Kind, number: number, notice: Notice): void;
  /** The object has lost its memory, and its sockets with it. */
  protected abstract lostMemory(): void;
  /** After each command. */
  protected progressed(_machine: Kind): void {}

  /** Something reaches the object, which may lose its memory just before. */
  protected arrives(handle: () => void, failed: () => void = () => {}): void {
    const { schedule, faults } = this.world;
    if (this.machine && schedule.happens(faults.crash)) {
      this.crash();
      if (schedule.happens(0.5)) {
        failed();
        return;
      }
    }
    handle();
  }

  protected run(command: (machine: Kind) => void): void {
    const config = { ...CONFIG, defaultLeaseSeconds: 5 };
    const random = () => this.world.schedule.hex(32);
    this.machine ??= this.load(origin(this.stored, { session: this.name, config, random, now: this.now }));
    const { machine } = this;
    machine.context.now = this.now;
    command(machine);
    const effects = machine.context.takeEffects();
    const { schedule, faults } = this.world;
    if (effects.length > 0 && schedule.happens(faults.effect)) {
      this.crash();
      return;
    }
    for (const effect of effects) {
      this.#store(effect);
      if (effect.type === "left" && effect.isAll && machine.isOver) this.world.checks.hasLeft(this.name);
    }
    const life = this.life;
    for (const effect of effects) {
      this.#one(effect, machine);
      if (this.life !== life) return;
      if (schedule.happens(faults.effect)) {
        this.crash();
        return;
      }
    }
    this.progressed(machine);
    this.#arm(machine);
  }

  /** Alarms are stored like everything else. */
  #store(effect: Effect): void {
    this.stored.take(effect);
    if (effect.type === "wake")
      this.#setAlarm(effect.at ?? Math.min(this.#alarm + this.#skew, effect.by ?? Number.POSITIVE_INFINITY));
    else if (effect.type === "left" && effect.isAll) this.#alarm = Number.POSITIVE_INFINITY;
  }

  #one(effect: Effect, machine: Kind): void {
    const { life } = this;
    switch (effect.type) {
      case "callKey": {
        const { call, key, ask } = effect;
        const mayRepeat = () => this.life === life && machine.context.mayRepeatCall(call);
        this.world.call(`${this.name}/${life}`, key, ask, mayRepeat, (result) => {
          if (this.life !== life) return;
          this.run(({ context }) => {
            if (result.isFailed) context.keyFailed(call, "lost");
            else context.keyAnswered(call, result.outcome);
          });
        });
        break;
      }
      case "answerNotice":
      case "failNotice":
        this.#notices.get(effect.notice)?.(effect.type === "answerNotice" ? effect.answer : undefined);
        this.#notices.delete(effect.notice);
        break;
      default:
        this.handle(effect, machine);
    }
  }

  /** The alarm is stored: it fires whatever becomes of the object, and again if the object was lost meanwhile. */
  #setAlarm(time: number): void {
    if (time === Number.POSITIVE_INFINITY) return;
    const at = time - this.#skew;
    this.#alarm = at;
    this.world.schedule.at(at, () => {
      if (this.#alarm !== at) return;
      const { life } = this;
      this.#alarm = Number.POSITIVE_INFINITY;
      this.run((machine) => machine.wake());
      if (this.life !== life) this.#setAlarm(Math.min(this.now + ALARM_AGAIN_MS, this.#alarm + this.#skew));
    });
  }

  #arm(machine: Kind): void {
    const at = machine.context.timers.next - this.#skew;
    const { life } = this;
    if ((at === this.#timer && life === this.#timerLife) || at === Number.POSITIVE_INFINITY) return;
    this.#timer = at;
    this.#timerLife = life;
    this.world.schedule.at(at, () => {
      if (this.life !== life || this.#timer !== at) return;
      this.#timer = Number.POSITIVE_INFINITY;
      this.run((loaded) => loaded.tick(this.now));
    });
  }
}
