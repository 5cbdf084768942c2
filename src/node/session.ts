import type { NoticeAnswer } from "../core/engine/index.ts";
import type { SessionContext } from "../core/session/context.ts";
import type { Effect, Loss, Notice, RecordName, SessionRecords, Want } from "../core/session/effects.ts";
import type { KeyOutcome } from "../core/session/key-calls.ts";
import type { Transport } from "../core/session-counts.ts";
import type { SessionHost } from "./session-host.ts";
import type { StoredRecords } from "./store/store.ts";
import type { Timed } from "./timers.ts";

/** What a session knows of itself between its commands. Its keys are not stored: the rows of keys name their sessions. */
class Records implements SessionRecords {
  readonly #keys: Set<string>;
  readonly values: Map<string, unknown>;

  constructor(stored: StoredRecords, keys: Iterable<string>) {
    this.values = new Map(Object.entries(stored));
    this.#keys = new Set(keys);
  }

  hasKey(key: string): boolean {
    return this.#keys.has(key);
  }

  keys(): readonly string[] {
    return [...this.#keys];
  }

  get(name: RecordName): unknown {
    return this.values.get(name);
  }

  storeKey(key: string): void {
    this.#keys.add(key);
  }

  forgetKeys(keys: readonly string[]): void {
    for (const key of keys) this.#keys.delete(key);
  }
}

/** The part of a session's state machine that every host of one needs. */
interface Machine {
  readonly context: SessionContext;
  /** The client has left. */
  readonly isOver: boolean;
  tick(due: number): void;
  wake(): void;
  lose(loss: Loss): void;
}

/** What a session is made from. */
export interface SessionStart {
  readonly name: string;
  readonly address: string;
  readonly transport: Transport;
  readonly label: string | undefined;
  /** Of its row; 0 if it has none. */
  readonly rowId?: number;
  readonly stored?: StoredRecords;
  /** Keys on which it may have something. */
  readonly keys?: Iterable<string>;
}

/** One client's session in memory: runs the commands of its state machine, and what they make the host do. */
export abstract class Session implements Timed {
  readonly name: string;
  readonly address: string;
  readonly transport: Transport;
  /** A name the client has chosen. */
  label: string | undefined;
  /** Of its row; 0 while it has none. */
  rowId: number;
  scheduledAt = Number.POSITIVE_INFINITY;
  protected readonly host: SessionHost;
  protected readonly records: Records;
  protected abstract readonly machine: Machine;
  /** The alarm that the state machine has set. */
  #wakeAt = Number.POSITIVE_INFINITY;
  #isDropped = false;
  /** Notices that the session has yet to answer, by number. */
  readonly #notices = new Map<number, { readonly isGrant: boolean; answer(answer: NoticeAnswer): void }>();
  #lastNotice = 0;

  constructor(host: SessionHost, start: SessionStart) {
    const { name, address, transport, label, rowId = 0, stored = {}, keys = [] } = start;
    this.host = host;
    this.name = name;
    this.address = address;
    this.transport = transport;
    this.label = label;
    this.rowId = rowId;
    this.records = new Records(stored, keys);
  }

  /** What is stored of it; undefined if it leaves nothing behind. */
  get stored(): StoredRecords | undefined {
    return this.records.values.size > 0 ? Object.fromEntries(this.records.values) : undefined;
  }

  /** Keys on which it may have something. */
  get keys(): readonly string[] {
    return this.records.keys();
  }

  /** Nothing of it counts any longer: another object stands for the session, or none. */
  get isDropped(): boolean {
    return this.#isDropped;
  }

  /** Its client has left, or has been sent away. */
  get hasLeft(): boolean {
    return this.machine.isOver;
  }

  get dueAt(): number {
    return this.#isDropped ? Number.POSITIVE_INFINITY : Math.min(this.#wakeAt, this.machine.context.timers.next);
  }

  fire(now: number): void {
    if (this.machine.context.timers.next <= now) this.run(() => this.machine.tick(now));
    if (this.#wakeAt > now) return;
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.run(() => this.machine.wake());
  }

  /** Runs a command, and sees to its effects. Must be part of a batch. */
  run(command: () => void): void {
    if (this.#isDropped) return;
    const { context } = this.machine;
    this.host.touched(this);
    context.now = this.host.now();
    try {
      command();
      for (const effect of context.takeEffects()) this.#carryOut(effect);
      this.progressed();
    } catch (error) {
      this.host.broke(this);
      throw error;
    }
    this.host.schedule(this);
  }

  /** A key tells something of a request. `answer` takes what the session says to that. */
  notice(notice: Notice, answer: (answer: NoticeAnswer) => void): void {
    this.#lastNotice += 1;
    const number = this.#lastNotice;
    this.#notices.set(number, { isGrant: notice.kind === "granted", answer });
    this.run(() => this.takeNotice(number, notice));
  }

  lose(loss: Loss): void {
    this.run(() => this.machine.lose(loss));
  }

  /** Another client wants a key that the session holds. */
  abstract want(want: Want): void;

  /** The batch that it took part in has failed, or a command of its own: what it knows may be more than what is stored. */
  drop(): void {
    this.#isDropped = true;
  }

  protected abstract takeNotice(number: number, notice: Notice): void;

  /** Carries out what only one kind of session has. */
  protected abstract handle(effect: Effect): void;

  /** Everything that it held is free, and nothing of it is left. */
  protected allLeft(): void {}

  /** A command has been run. */
  protected progressed(): void {}

  /** A commit may take long: tells, when the grant is handed over, whether its lease still runs. */
  protected leaseOf(key: string, token: string): () => boolean {
    const { host } = this;
    const ends = host.leaseEnd(key, token) ?? Number.POSITIVE_INFINITY;
    return () => (host.leaseEnd(key, token) ?? ends) > host.now();
  }

  /** Wakes the state machine at this time, unless it wakes earlier. */
  protected wakeBy(time: number): void {
    if (time < this.#wakeAt) this.#wakeAt = time;
  }

  #carryOut(effect: Effect): void {
    switch (effect.type) {
      case "callKey":
        this.#call(effect);
        break;
      case "answerNotice":
        this.#answerNotice(effect.notice, effect.answer);
        break;
      case "failNotice":
        this.#notices.delete(effect.notice);
        break;
      case "storeKey":
        this.records.storeKey(effect.key);
        break;
      case "forgetKeys":
        this.records.forgetKeys(effect.keys);
        break;
      case "put":
        this.records.values.set(effect.name, effect.value);
        this.host.changed(this);
        break;
      case "wake":
        if (effect.at !== undefined) this.#wakeAt = effect.at;
        else if (effect.by !== undefined) this.wakeBy(effect.by);
        break;
      case "left":
        if (effect.isAll) this.#end();
        break;
      default:
        this.handle(effect);
    }
  }

  /**
   * A lease begins when its grant is handed over, so the key hears of that only once the client has been told. The end of
   * a wait is stored with what its client is told, or the place could come back.
   */
  #answerNotice(number: number, answer: NoticeAnswer): void {
    const notice = this.#notices.get(number);
    this.#notices.delete(number);
    if (!notice) return;
    const { batch } = this.host;
    if (answer === "taken" && notice.isGrant) batch.afterwards(() => batch.enter(() => notice.answer(answer)));
    else batch.enter(() => notice.answer(answer));
  }

  #end(): void {
    this.records.values.clear();
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.host.changed(this);
    this.host.ended(this);
    this.allLeft();
  }

  #call({ call, key, ask }: Extract<Effect, { readonly type: "callKey" }>): void {
    const { context } = this.machine;
    const answered = (outcome: KeyOutcome) => this.run(() => context.keyAnswered(call, outcome));
    const failed = (error: string) => this.run(() => context.keyFailed(call, error));
    this.host.callKey(this, key, ask, answered, failed);
  }
}
