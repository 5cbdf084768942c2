import type { Outcome } from "../core/protocols/statuses.ts";
import type { Effect, Notice } from "../core/session/effects.ts";
import type { KeyRequest } from "../core/session/key-calls.ts";
import { PolledSession } from "../core/session/polled-session.ts";
import type { Gone, Left, RestRequest } from "../service.ts";
import { Session, type SessionStart } from "./session.ts";
import type { SessionHost } from "./session-host.ts";

const GONE: Gone = { status: "gone" };
const LEFT: Left = { status: "left" };

/** A request whose client waits for the answer. */
interface Asked {
  readonly request: KeyRequest;
  resolve(result: Outcome | Gone | Left): void;
  reject(error: unknown): void;
}

/** Hears that the session has left all its keys, or that this is not certain. */
interface Leaver {
  left(): void;
  failed(error: unknown): void;
}

/** A request that is to be withdrawn. */
interface Abandoned {
  readonly id: string;
  readonly key: string;
  /** Its client has hung up: a `wait` ends its place. */
  readonly hasLeft: boolean;
}

/** The session of a client that makes HTTP requests. */
export class RestSession extends Session {
  protected readonly machine: PolledSession;
  readonly #asked = new Map<string, Asked>();
  #lastId = 0;
  readonly #prefix: string;
  /** Callers that wait until everything that the session held is free. */
  readonly #leavers: Leaver[] = [];
  #abandoned: readonly Abandoned[] = [];
  /** Requests whose clients have hung up, until that is stored. */
  readonly #hangUps = new Set<Abandoned>();

  constructor(host: SessionHost, start: SessionStart) {
    super(host, start);
    const origin = host.originOf(start.name, this.records);
    this.machine = new PolledSession({ ...origin, holdsConnections: true }, []);
    // Ids of requests are unique across restarts.
    this.#prefix = origin.random().slice(0, 16);
  }

  open(): void {
    this.run(() => this.machine.open(this.address, this.label));
  }

  /** The client is alive. False if the session has ended. */
  saw(label?: string): boolean {
    let isThere = false;
    this.run(() => {
      isThere = this.machine.saw(label);
    });
    return isThere && !this.isDropped;
  }

  /** Ends the session; `left` is called once everything it held is free, and that is stored. */
  end(leaver: Leaver): void {
    this.#leavers.push(leaver);
    this.run(() => this.machine.end());
  }

  /** The session was read again. */
  revive(): void {
    const { batch } = this.host;
    const abandoned = this.#abandoned;
    batch.afterwards(() => {
      this.#abandoned = [];
    });
    for (const { id, key, hasLeft } of abandoned) this.run(() => this.machine.withdraw(id, key, { hasLeft }));
    this.run(() => this.machine.wake());
  }

  /** The requests of a session that was dropped: they have failed, or their clients have hung up. */
  get abandoned(): readonly Abandoned[] {
    return this.#abandoned;
  }

  abandon(requests: readonly Abandoned[]): void {
    this.#abandoned = requests;
  }

  /** Carries a request out. Once the signal is aborted, its caller has gone, and it is withdrawn. */
  perform({ request, label }: RestRequest, signal: AbortSignal | undefined, asked: Omit<Asked, "request">): void {
    // A client that hangs up on a `wait` gives its place up, even before the request has had its turn.
    const hasLeft = signal?.aborted === true;
    if (hasLeft && request.type !== "wait") {
      asked.resolve(LEFT);
      return;
    }
    if (!this.saw(label) || this.machine.isOver) {
      this.host.batch.afterwards(() => asked.resolve(GONE), asked.reject);
      return;
    }
    this.#lastId += 1;
    const id = `${this.#prefix}.${this.#lastId}`;
    const hungUp = () => this.#hungUp(id);
    signal?.addEventListener("abort", hungUp);
    // The signal may outlive the request.
    const settled = () => signal?.removeEventListener("abort", hungUp);
    this.#asked.set(id, {
      request,
      resolve: (result) => {
        settled();
        asked.resolve(result);
      },
      reject: (error) => {
        settled();
        asked.reject(error);
      },
    });
    this.run(() => this.machine.begin(id, request));
    if (hasLeft) hungUp();
  }

  want(): void {}

  override drop(): void {
    super.drop();
    const error = new Error("the session was read again");
    const asked = Array.from(this.#asked, ([id, { request }]) => ({ id, key: request.key, hasLeft: false }));
    this.#abandoned = [...this.#abandoned, ...this.#hangUps, ...asked];
    for (const { reject } of this.#asked.values()) reject(error);
    this.#asked.clear();
    for (const { failed } of this.#leavers.splice(0)) failed(error);
  }

  protected takeNotice(number: number, notice: Notice): void {
    this.machine.notice(number, notice, true);
  }

  protected handle(effect: Effect): void {
    switch (effect.type) {
      case "reply":
      case "tell":
        this.#tell(effect.id, effect.outcome);
        break;
      case "relabel":
        this.label = effect.label;
        break;
      case "ended":
        this.host.unlisted(this);
        break;
      case "log":
        if (effect.level !== "debug") this.host.log(effect.level, effect.event, { ...effect.fields });
        break;
    }
  }

  protected override allLeft(): void {
    for (const { left, failed } of this.#leavers.splice(0)) this.host.batch.afterwards(left, failed);
  }

  /** Hands the answer over once it is durable, unless the client has hung up by then. */
  #tell(id: string, outcome: Outcome | "gone" | "waits" | "lost"): void {
    const { batch } = this.host;
    const asked = this.#asked.get(id);
    if (!asked) return;
    const isAnswer = typeof outcome !== "string";
    const { request } = asked;
    const renewed = request.type === "renew" && isAnswer && outcome.status === "ok" ? request.token : undefined;
    const token = (isAnswer ? outcome.token : undefined) ?? renewed;
    const late: Outcome = { status: renewed === undefined ? "lease_expired" : "not_held" };
    const runs = token === undefined ? () => true : this.leaseOf(request.key, token);
    batch.afterwards(
      () => {
        // Withdrawn meanwhile.
        if (!this.#asked.delete(id)) return;
        const told = runs() ? outcome : late;
        asked.resolve(typeof told === "string" ? GONE : told);
        if (typeof told === "string") return;
        this.host.count({ type: "answered", status: told.status }, "http");
        batch.enter(() => this.run(() => this.machine.delivered(id)));
      },
      (error) => {
        this.#asked.delete(id);
        asked.reject(error);
      },
    );
  }

  #hungUp(id: string): void {
    const asked = this.#asked.get(id);
    if (!asked) return;
    this.#asked.delete(id);
    asked.resolve(LEFT);
    const { key, type } = asked.request;
    const hangUp: Abandoned = { id, key, hasLeft: type === "wait" };
    this.#hangUps.add(hangUp);
    const { batch } = this.host;
    batch.enter(() => {
      batch.afterwards(() => this.#hangUps.delete(hangUp));
      this.run(() => this.machine.withdraw(id, key, hangUp));
    });
  }
}
