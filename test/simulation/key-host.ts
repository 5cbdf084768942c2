import type { CommandContext, KeyEvent } from "../../src/core/engine/index.ts";
import type { KeyCall, KeyOutcome } from "../../src/core/session/key-calls.ts";
import { type Call, StoredEngine } from "../engine/stored-engine.ts";
import type { World } from "./world.ts";

const RULES = { fenceFloor: 0n, maxWaiters: 0, gcMaxIdleMs: 30_000 };

/** Calls that end a hold because its client was not told of it, or does not want it. */
const GIVES_BACK: ReadonlySet<Call["do"]> = new Set(["answer", "cancel"]);

/** A key's object: the engine, its rows, its alarm, and the calls it makes. */
export class KeyHost {
  readonly name: string;
  readonly stored: StoredEngine;
  readonly limit: number;
  readonly #world: World;
  readonly #skew: number;
  /** Incremented when the object loses its memory: answers to its earlier calls are lost. */
  #life = 1;
  #alarm = Number.POSITIVE_INFINITY;
  #salts = 0;

  constructor(world: World, name: string) {
    this.#world = world;
    this.name = name;
    this.#skew = world.skew();
    this.limit = name.startsWith("pool") ? 2 : 1;
    this.stored = new StoredEngine(this.limit, this.now);
  }

  get now(): number {
    return this.#world.schedule.now + this.#skew;
  }

  perform(ask: KeyCall): KeyOutcome {
    const outcome = this.#run(callOf(ask)) as KeyOutcome;
    const isSteal = ask.type === "acquire" && ask.command.steals;
    if (isSteal && outcome?.status === "granted") this.#world.checks.stole(ask.command.request, outcome.token);
    return outcome;
  }

  crash(): void {
    this.#world.tell(`${this.name} loses its memory`);
    this.#life += 1;
    this.#run({ do: "reload" });
  }

  #run(call: Call): unknown {
    const { outcome, events, observations } = this.stored.run(call, this.#context());
    this.#world.checks.keyChanged(this);
    for (const observation of observations)
      if (observation.type === "ended" && observation.reason === "gone" && GIVES_BACK.has(call.do))
        this.#world.checks.givenBack(this.name, observation.fence);
    for (const event of events) this.#send(event);
    // A pruned key is nothing until it is used again.
    if (call.do !== "prune") this.#arm();
    return outcome;
  }

  #send(event: KeyEvent): void {
    const { schedule, faults } = this.#world;
    const session = this.#world.sessions.get(event.session);
    const life = this.#life;
    const isLost = (share: number) => schedule.happens(faults.call * share);
    if (isLost(0.5)) return;
    schedule.after(this.#world.delay(), () => {
      if (event.type === "lost") {
        session?.lose({ key: this.name, token: event.token, reason: event.reason });
        return;
      }
      if (event.type === "wanted") {
        const want = () => session?.want({ key: this.name, token: event.token });
        want();
        if (schedule.happens(faults.call)) schedule.after(this.#world.delay(), want);
        return;
      }
      if (event.type !== "notice") return;
      const answered = (answer: Parameters<StoredEngine["engine"]["answer"]>[1] | undefined) => {
        if (answer === undefined || isLost(0.5)) return;
        schedule.after(this.#world.delay(), () => {
          const { request, offer } = event;
          if (this.#life === life) this.#run({ do: "answer", request, answer, offered: offer?.token });
        });
      };
      const { type: _, session: __, ...notice } = event;
      if (session) {
        if (isLost(0.5)) session.deliverAgain({ key: this.name, ...notice }, answered);
        session.deliver({ key: this.name, ...notice }, answered);
      } else answered("gone");
    });
  }

  #arm(): void {
    const wake = this.stored.engine.nextWake({ gcMaxIdleMs: RULES.gcMaxIdleMs, graceMs: 0 }) - this.#skew;
    if (wake === Number.POSITIVE_INFINITY || wake >= this.#alarm) return;
    this.#alarm = wake;
    this.#world.schedule.at(wake, () => {
      if (this.#alarm !== wake) return;
      this.#alarm = Number.POSITIVE_INFINITY;
      if (this.#world.schedule.happens(this.#world.faults.crash)) this.crash();
      if (this.stored.engine.isPrunable(this.#context())) this.#run({ do: "prune", limit: this.limit });
      else this.#run({ do: "tick" });
    });
  }

  #context(): CommandContext {
    const salt = () => {
      this.#salts += 1;
      return this.#salts.toString(16).padStart(16, "0");
    };
    return { now: this.now, salt, ...RULES };
  }
}

function callOf(ask: KeyCall): Call {
  if (ask.type === "acquire") return { do: "acquire", command: ask.command };
  if (ask.type === "enqueue") return { do: "enqueue", command: ask.command };
  if (ask.type === "wait") return { do: "wait", command: ask.command };
  const { type, ...rest } = ask;
  return { do: type, ...rest } as Call;
}
