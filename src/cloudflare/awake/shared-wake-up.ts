import { log } from "../../log.ts";
import { WakeTimer } from "./wake-timer.ts";
import type { Alarm } from "./wake-up.ts";

interface Means {
  /** False if a write would fail, as on a full disk: that would cost all sessions their sockets. A timer does instead. */
  mayStore(): boolean;
  /** The time that was asked for has come, and no alarm is set. */
  ring(): void;
}

/**
 * The one alarm of an object in which several sessions live. Who wants to be woken when is kept in memory only: a new
 * life of the object wakes all of them at its first alarm, which is never later than any of theirs, and each then says
 * again what it wants.
 */
export class SharedWakeUp {
  readonly #storage: DurableObjectStorage;
  readonly #mayStore: () => boolean;
  readonly #timer: WakeTimer;
  readonly #times = new Map<string, number>();
  /** As set; an earlier life may have set it. */
  #at: number | undefined;
  /** It has fired in this life. */
  #hasFired = false;

  constructor(storage: DurableObjectStorage, { mayStore, ring }: Means) {
    this.#storage = storage;
    this.#mayStore = mayStore;
    this.#timer = new WakeTimer(ring);
  }

  /** Loads the alarm set before the object was restarted. */
  async recall(): Promise<void> {
    this.#at = (await this.#storage.getAlarm()) ?? undefined;
  }

  isNear(ms: number): boolean {
    return this.#at !== undefined && this.#at <= Date.now() + ms;
  }

  of(session: string): Alarm {
    const set = (time: number) => {
      this.#times.set(session, time);
      this.#arm();
    };
    const timeOf = () => this.#times.get(session) ?? Number.POSITIVE_INFINITY;
    return {
      isNear: (ms) => timeOf() <= Date.now() + ms,
      by: (time) => {
        if (time < timeOf()) set(time);
      },
      set,
      clear: () => void this.#times.delete(session),
    };
  }

  /**
   * The alarm has fired: wakes the sessions that are due, in a new life all of those in `stored`, and sets it for the
   * next. Resolves when they have done what they were woken for. A session that cannot be woken is tried again.
   */
  fired(stored: () => Iterable<string>, wake: (session: string) => Promise<void>): Promise<unknown> {
    const now = Date.now();
    const due = [...this.#times].filter(([, time]) => time <= now).map(([session]) => session);
    const sessions = new Set(this.#hasFired ? due : [...due, ...stored()]);
    this.#hasFired = true;
    this.#at = undefined;
    for (const session of sessions) this.#times.delete(session);
    this.#arm();
    return Promise.all(
      [...sessions].map((session) =>
        wake(session).catch((error: unknown) => {
          log("error", "session_not_woken", { error: String(error) });
          this.of(session).by(Date.now() + RETRY_MS);
        }),
      ),
    );
  }

  /** Everything in the object was deleted with the last that this session had stored, and the alarm with it. */
  deletedWith(session: string): void {
    this.#times.delete(session);
    this.#at = undefined;
    this.#arm();
  }

  /** An early alarm does no harm: it wakes nobody who is not due. */
  #arm(): void {
    const next = Math.min(...this.#times.values());
    if (next === Number.POSITIVE_INFINITY || (this.#at !== undefined && this.#at <= next)) return;
    this.#at = Math.min(next, Date.now() + FARTHEST_MS);
    if (this.#mayStore()) void this.#storage.setAlarm(this.#at);
    else this.#timer.at(this.#at);
  }
}

const RETRY_MS = 2_000;
/** The platform accepts no alarm beyond the year 2189. */
const FARTHEST_MS = 30 * 24 * 3600 * 1000;
