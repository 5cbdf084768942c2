/**
 * Many sessions and keys under one seeded schedule. Sessions are the session core, keys the engine; what lies between
 * them may be slow, fail, or be done twice, and every object may lose its memory between any two effects.
 */
import { KeyLane, type LaneCall } from "../../src/cloudflare/calls/key-lane.ts";
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
  readonly #ways = new Map<string, Way>();
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

  /** A call from one life of a session to a key. They arrive in order, also those that are repeated. */
  call(from: string, name: string, ask: KeyCall, mayRepeat: () => boolean, done: (result: Result) => void): void {
    const path = `${from} ${name}`;
    const way = this.#ways.get(path) ?? new Way(path, name);
    this.#ways.set(path, way);
    way.calls += 1;
    this.#attempt({ way, number: way.calls, place: way.lane.join(), ask, mayRepeat, done }, 1);
  }

  /** A life of a session is over: what it has sent arrives before anything that its next life sends, or never. */
  lifeEnded(from: string): void {
    for (const [path, way] of this.#ways) {
      if (!path.startsWith(`${from} `)) continue;
      this.#ways.delete(path);
      way.isOver = true;
      if (this.schedule.happens(0.5)) way.connection?.lane.end();
      else way.connection?.lane.cut();
    }
  }

  #attempt(call: Call, attempt: number): void {
    const { way, place } = call;
    if (way.isOver) return;
    if (!way.lane.mayGo(place)) {
      way.lane.wait(place, () => this.#attempt(call, attempt));
      return;
    }
    if (attempt > 1 && !call.mayRepeat()) {
      this.#finish(call, { isFailed: true });
      return;
    }
    way.connection ??= new Connection(this.schedule);
    const { connection } = way;
    connection.inFlight.set(call, () => {
      way.lane.failed(place);
      this.schedule.after(this.delay(), () => {
        if (attempt < MAX_ATTEMPTS && this.schedule.happens(0.5)) this.#attempt(call, attempt + 1);
        else this.#finish(call, { isFailed: true });
      });
    });
    connection.lane.send(this.delay(), () => this.#arrive(call, connection));
    way.lane.sent(place, connection);
  }

  #arrive(call: Call, connection: Connection): void {
    const { way, ask } = call;
    const key = this.key(way.name);
    if (this.schedule.happens(this.faults.call / 2)) {
      this.tell(`${way.path}: ${ask.type} does not arrive`);
      way.breaks(connection);
      return;
    }
    if (this.schedule.happens(this.faults.crash)) key.crash();
    const outcome = key.perform(ask);
    this.checks.carriedOut(call, outcome);
    const isLost = this.schedule.happens(this.faults.call / 2);
    this.tell(`${way.path}: ${describe(ask)} -> ${isLost ? "(lost) " : ""}${outcome?.status ?? "done"}`);
    if (isLost) {
      if (this.schedule.happens(0.3)) key.crash();
      way.breaks(connection);
    } else
      this.schedule.after(this.delay(), () => {
        if (connection.inFlight.delete(call)) this.#finish(call, { isFailed: false, outcome });
      });
  }

  #finish({ way, place, done }: Call, result: Result): void {
    way.lane.leave(place);
    done(result);
  }
}

/** A call of a session to a key, however often it is made. */
export interface Call {
  readonly way: Way;
  /** Among the calls of one life of the session to the key. */
  readonly number: number;
  readonly place: LaneCall<Connection>;
  readonly ask: KeyCall;
  readonly mayRepeat: () => boolean;
  readonly done: (result: Result) => void;
}

/** Calls arrive on it in the order in which they were sent. If one fails, so do all that are in flight. */
class Connection {
  readonly lane: Lane;
  /** What follows if the connection breaks before they are answered. */
  readonly inFlight = new Map<Call, () => void>();

  constructor(schedule: Schedule) {
    this.lane = new Lane(schedule);
  }
}

/** From one life of a session to one key. */
class Way {
  readonly path: string;
  readonly name: string;
  connection: Connection | undefined;
  readonly lane = new KeyLane<Connection>(() => this.connection);
  calls = 0;
  isOver = false;

  constructor(path: string, name: string) {
    this.path = path;
    this.name = name;
  }

  breaks(connection: Connection): void {
    if (this.connection === connection) this.connection = undefined;
    connection.lane.cut();
    const failed = [...connection.inFlight.values()];
    connection.inFlight.clear();
    for (const fail of failed) fail();
  }
}

export type Result = { readonly isFailed: true } | { readonly isFailed: false; readonly outcome: KeyOutcome };

function describe(ask: KeyCall): string {
  if ("command" in ask) return `${ask.type} ${ask.command.request}`;
  if ("request" in ask) return `${ask.type} ${ask.request}`;
  return "token" in ask ? `${ask.type} ${ask.token.slice(0, 16)}` : ask.type;
}
