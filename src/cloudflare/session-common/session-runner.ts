import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { SessionContext } from "../../core/session/context.ts";
import type { Effect } from "../../core/session/effects.ts";
import { log } from "../../log.ts";
import { WakeTimer } from "../alarms/wake-timer.ts";
import type { WakeUp } from "../alarms/wake-up.ts";
import type { RemoteKeys } from "../calls/remote-keys.ts";
import type { SessionStore } from "./session-store.ts";

type CallEffect = Extract<Effect, { readonly type: "callKey" }>;

/** Carries out what only one kind of session has, by the type of the effect. */
export type EffectHandlers = {
  readonly [Type in Effect["type"]]?: (effect: Extract<Effect, { readonly type: Type }>) => void;
};

const STORES: ReadonlySet<Effect["type"]> = new Set(["storeKey", "forgetKeys", "put"]);

/** A session's state machine. */
export interface Machine {
  readonly context: SessionContext;
  readonly isLeaving: boolean;
  tick(due: number): void;
}

/** What a session's machine is run with. */
export interface RunnerParts {
  readonly keys: RemoteKeys;
  readonly store: SessionStore;
  readonly wakeUp: WakeUp;
  readonly handlers: EffectHandlers;
  /** Called after each command. */
  readonly progressed?: () => void;
}

/** Runs the commands of a session's state machine, and what they make the host do. */
export class SessionRunner {
  readonly #machine: Machine;
  readonly #parts: RunnerParts;
  readonly #notices = new Map<number, PromiseWithResolvers<NoticeAnswer>>();
  #lastNotice = 0;
  /** Callers that wait until no key is being left. */
  #leavers: (() => void)[] = [];
  #deletion: Promise<void> | undefined;
  readonly #timer = new WakeTimer((due) => this.run(() => this.#machine.tick(Math.max(due, Date.now()))));

  constructor(machine: Machine, parts: RunnerParts) {
    this.#machine = machine;
    this.#parts = parts;
  }

  /** Runs a command now, and then its effects. */
  run<Result>(command: () => Result): Result {
    const { context } = this.#machine;
    context.now = Date.now();
    try {
      return command();
    } finally {
      // Also if the command failed half-way: what it has decided until then is part of its state.
      this.#carryOut(context.takeEffects());
      this.#parts.progressed?.();
      this.#timer.at(context.timers.next);
    }
  }

  /** Runs a command that answers a notice. */
  notice(command: (number: number) => void): Promise<NoticeAnswer> {
    this.#lastNotice += 1;
    const number = this.#lastNotice;
    const answer = Promise.withResolvers<NoticeAnswer>();
    this.#notices.set(number, answer);
    this.run(() => command(number));
    return answer.promise;
  }

  /** Resolves when all keys have been left and nothing is stored, or when none of the rest can be reached now. */
  async hasLeft(): Promise<void> {
    if (this.#machine.isLeaving) await new Promise<void>((resolve) => this.#leavers.push(resolve));
    await this.#deletion;
  }

  #carryOut(effects: readonly Effect[]): void {
    let fault: unknown;
    for (const effect of effects) {
      // What could not be stored must not be acted upon.
      if (fault !== undefined && effect.type === "callKey") this.#failLater(effect, fault);
      else {
        try {
          this.#one(effect);
        } catch (error) {
          if (STORES.has(effect.type)) fault ??= error;
          log("error", "effect_failed", { effect: effect.type, error: String(error) });
        }
      }
    }
  }

  #one(effect: Effect): void {
    const { store, wakeUp } = this.#parts;
    switch (effect.type) {
      case "callKey":
        void this.#call(effect);
        break;
      case "answerNotice":
        this.#takeNotice(effect.notice)?.resolve(effect.answer);
        break;
      case "failNotice":
        this.#takeNotice(effect.notice)?.reject(new Error(effect.error));
        break;
      case "storeKey":
        store.storeKey(effect.key);
        break;
      case "forgetKeys":
        store.forget(effect.keys);
        break;
      case "put":
        store.put(effect.name, effect.value);
        break;
      case "wake":
        if (effect.at !== undefined) wakeUp.set(effect.at);
        else if (effect.by !== undefined) wakeUp.by(effect.by);
        break;
      case "left":
        this.#left(effect.isAll);
        break;
      default:
        this.#handle(effect);
    }
  }

  #handle<Type extends Effect["type"]>(effect: Extract<Effect, { readonly type: Type }>): void {
    this.#parts.handlers[effect.type]?.(effect);
  }

  #left(isAll: boolean): void {
    const { store, wakeUp } = this.#parts;
    if (isAll) this.#deletion = store.deleteAll().then(() => wakeUp.clear());
    for (const resolve of this.#leavers.splice(0)) resolve();
  }

  async #call({ call, key, ask }: CallEffect): Promise<void> {
    const { context } = this.#machine;
    let answered: () => void;
    try {
      const outcome = await this.#parts.keys.command(key, ask, () => context.mayRepeatCall(call));
      answered = () => context.keyAnswered(call, outcome);
    } catch (error) {
      answered = () => context.keyFailed(call, String(error));
    }
    this.run(answered);
  }

  #failLater({ call }: CallEffect, fault: unknown): void {
    queueMicrotask(() => this.run(() => this.#machine.context.keyFailed(call, String(fault))));
  }

  #takeNotice(number: number): PromiseWithResolvers<NoticeAnswer> | undefined {
    const notice = this.#notices.get(number);
    this.#notices.delete(number);
    return notice;
  }
}
