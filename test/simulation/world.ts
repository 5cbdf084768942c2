/**
 * Many sessions and keys under one seeded schedule. Sessions are the session core, keys the engine; what lies between
 * them may be slow, fail, or be done twice, and every object may lose its memory between any two effects.
 */
import type { KeyCall, KeyOutcome } from "../../src/core/session/key-calls.ts";
import { Checks } from "./checks.ts";
import { KeyHost } from "./key-host.ts";
import { Lane, Schedule } from "./schedule.ts";
import type { SessionHost } from "./session-host.ts";

export interface Faults {
  /** How often a call fails, with or without having been carried out. */
  readonly call: number;
  /** How often an object loses its memory when something arrives. */
  readonly crash: number;
  /** How often an object loses its memory between two effects. */
  readonly effect: number;
  /** How often a sleeping object is evicted, its socket kept. */
  readonly sleep: number;
}

/** A client, which may hold locks. */
export interface Believer {
  readonly name: string;
  /** It has been told that it holds this, and has no reason to doubt that. */
  believesIn(key: string, fence: string): boolean;
}

const NONE: Faults = { call: 0, crash: 0, effect: 0, sleep: 0 };
const MAX_ATTEMPTS = 3;

export class World {
  readonly schedule: Schedule;
  readonly checks: Checks;
  readonly keys = new Map<string, KeyHost>();
  readonly sessions = new Map<string, SessionHost>();
  readonly clients: Believer[] = [];
  readonly #lanes = new Map<string, Lane>();
  readonly #story: string[] = [];
  faults: Faults;

  constructor(seed: number, faults: Faults) {
    this.schedule = new Schedule(seed);
    this.faults = faults;
    this.checks = new Checks(this);
  }

  get story(): readonly string[] {
    return this.#story;
  }

  tell(event: string): void {
    this.#story.push(`${String((this.schedule.now % 1e8) / 1000).padEnd(10)} ${event}`);
  }

  /** From now on nothing fails. */
  calm(): void {
    this.faults = NONE;
    this.tell("calm");
  }

  key(name: string): KeyHost {
    let key = this.keys.get(name);
    if (!key) {
      key = new KeyHost(this, name);
      this.keys.set(name, key);
    }
    return key;
  }

  /** How far the clock of an object is off. Most are nearly right: an offer is only taken at once if it looks new. */
  skew(): number {
    return this.schedule.happens(0.75) ? this.schedule.between(-300, 300) : this.schedule.between(-3_000, 3_000);
  }

  delay(): number {
    return this.schedule.happens(0.05) ? this.schedule.between(100, 2_000) : this.schedule.between(1, 20);
  }

  /** A call from one life of a session to a key. Calls to one key arrive in order, unless one is repeated. */
  call(from: string, name: string, ask: KeyCall, mayRepeat: () => boolean, done: (result: Result) => void): void {
    this.#attempt(`${from} ${name}`, name, ask, mayRepeat, done, 1);
  }

  /** A life of a session is over: what it has sent arrives before anything that its next life sends, or never. */
  lifeEnded(from: string): void {
    for (const [way, lane] of this.#lanes) {
      if (!way.startsWith(`${from} `)) continue;
      this.#lanes.delete(way);
      if (this.schedule.happens(0.5)) lane.end();
      else lane.cut();
    }
  }

  #attempt(
    way: string,
    name: string,
    ask: KeyCall,
    mayRepeat: () => boolean,
    done: (result: Result) => void,
    attempt: number,
  ): void {
    const lane = this.#lanes.get(way) ?? new Lane(this.schedule);
    this.#lanes.set(way, lane);
    const fail = () =>
      this.schedule.after(this.delay(), () => {
        if (attempt < MAX_ATTEMPTS && this.schedule.happens(0.5) && mayRepeat())
          this.#attempt(way, name, ask, mayRepeat, done, attempt + 1);
        else done({ isFailed: true });
      });
    lane.send(this.delay(), () => {
      const { call, crash } = this.faults;
      const key = this.key(name);
      if (this.schedule.happens(call / 2)) {
        this.tell(`${way}: ${ask.type} does not arrive`);
        fail();
        return;
      }
      if (this.schedule.happens(crash)) key.crash();
      const outcome = key.perform(ask);
      const isLost = this.schedule.happens(call / 2);
      this.tell(`${way}: ${describe(ask)} -> ${isLost ? "(lost) " : ""}${outcome?.status ?? "done"}`);
      if (isLost) {
        if (this.schedule.happens(0.3)) key.crash();
        fail();
      } else this.schedule.after(this.delay(), () => done({ isFailed: false, outcome }));
    });
  }
}

export type Result = { readonly isFailed: true } | { readonly isFailed: false; readonly outcome: KeyOutcome };

function describe(ask: KeyCall): string {
  if ("command" in ask) return `${ask.type} ${ask.command.request}`;
  if ("request" in ask) return `${ask.type} ${ask.request}`;
  return "token" in ask ? `${ask.type} ${ask.token.slice(0, 16)}` : ask.type;
}
