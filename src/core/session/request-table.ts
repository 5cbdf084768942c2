import { SmallMap } from "../engine/small-map.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { KeyRequest } from "./key-calls.ts";
import type { Timer } from "./timers.ts";

const MAX_TAGS = 1_024;
const WEIGHT_OF_REQUEST = 128;

/**
 * `sent`: being carried out. `waiting`: in the queue of its key. `offered`: granted, and being picked up. `answered`:
 * the answer is on its way to a client that has yet to confirm it. `withdrawing`: being withdrawn at its key.
 */
export type RequestState = "sent" | "waiting" | "offered" | "answered" | "withdrawing";

/** Everything a session knows about one request. */
export interface TrackedRequest {
  readonly id: string;
  /** Undefined if the request concerns no key. */
  readonly key: string | undefined;
  readonly type: KeyRequest["type"] | "report";
  /** The client's name for the request; undefined if it is answered in the order of the requests. */
  readonly tag: string | undefined;
  /** The token of the hold that it renews. */
  readonly renews?: string | undefined;
  state: RequestState;
  /** The key has answered that the request is in its queue. */
  isQueued: boolean;
  /**
   * A `wait`, and neither an `enqueue` nor a `wait` that takes over came after it: if its session has a place on the key,
   * it is the one it waits in.
   */
  ownsPlace: boolean;
  /** Its client has cancelled it or has left: a `wait` gives up its place. */
  isLeft: boolean;
  /** Unanswered notices that the request is granted. */
  readonly notices: number[];
  /** How often a grant was begun to be picked up because of a notice. */
  offers: number;
  /** While withdrawing: a call is in flight. */
  isCancelling: boolean;
  /** While withdrawing: the same request again, to be made when the withdrawal is over. */
  next: (() => void) | undefined;
  /** While withdrawing: what follows once the key has confirmed it, or can no longer be asked. */
  readonly whenWithdrawn: (() => void)[];
  /**
   * How a request without a socket waits. `call`: in its call, which is answered. `due`: the call has returned, and a
   * poll is about to come. `open`: in a poll, whose client confirms the answer.
   */
  poll: "call" | "due" | "open";
  /** The answer, if it came while the poll was due. */
  kept: Outcome | undefined;
  /** What happens next: the end of the call, of the time in which the poll has to come, or of a pause while withdrawing. */
  timer: Timer | undefined;
}

/** A waiting request as kept during sleep. */
export interface Waiting {
  readonly id: string;
  readonly key: string;
  readonly tag: string | undefined;
}

type Chosen = "renews" | "state" | "isQueued" | "ownsPlace" | "poll";

export function newRequest(
  entry: Pick<TrackedRequest, "id" | "key" | "type" | "tag"> & Partial<Pick<TrackedRequest, Chosen>>,
): TrackedRequest {
  const { id, key, type, tag, renews, state = "sent", isQueued = false, ownsPlace = type === "wait" } = entry;
  return {
    id,
    key,
    type,
    tag,
    renews,
    state,
    isQueued,
    ownsPlace,
    isLeft: false,
    notices: [],
    offers: 0,
    isCancelling: false,
    next: undefined,
    whenWithdrawn: [],
    poll: entry.poll ?? "call",
    kept: undefined,
    timer: undefined,
  };
}

/** The requests of one session by id. The client sees those that are listed: at most one untagged, and one per tag. */
export class RequestTable {
  readonly #entries = new SmallMap<string, TrackedRequest>();
  readonly #tags = new SmallMap<string, TrackedRequest>();
  #current: TrackedRequest | undefined;
  #revision = 0;

  /** Changes whenever `waiting` does. */
  get revision(): number {
    return this.#revision;
  }

  /** Number of requests that the client is still to be answered. */
  get size(): number {
    return this.#tags.size + (this.#current ? 1 : 0);
  }

  /** Approximate size of what is kept during sleep, in bytes. */
  get weight(): number {
    return this.size * WEIGHT_OF_REQUEST;
  }

  /** The untagged request in flight. */
  get current(): TrackedRequest | undefined {
    return this.#current;
  }

  /** The untagged request waits, and with it all untagged requests behind it. */
  get isBlocked(): boolean {
    return this.#current?.isQueued === true;
  }

  get waiting(): Waiting[] {
    const listed = [...this.#tags.values(), ...(this.#current ? [this.#current] : [])];
    return listed.flatMap(({ id, key, tag, isQueued, state }) =>
      isQueued && state !== "withdrawing" && key !== undefined ? [{ id, key, tag }] : [],
    );
  }

  /** Number of requests that are being carried out, as opposed to waiting. */
  get atWork(): number {
    return this.size - this.waiting.length;
  }

  get isAnyWithdrawing(): boolean {
    return this.some(({ state }) => state === "withdrawing");
  }

  some(test: (entry: TrackedRequest) => boolean): boolean {
    for (const entry of this.#entries.values()) if (test(entry)) return true;
    return false;
  }

  get(id: string): TrackedRequest | undefined {
    return this.#entries.get(id);
  }

  /** False if the entry has been removed, or another one with the same id has taken its place. */
  has(entry: TrackedRequest): boolean {
    return this.#entries.get(entry.id) === entry;
  }

  /** Whether the client is still to be answered. */
  isListed(entry: TrackedRequest): boolean {
    return entry.tag === undefined ? this.#current === entry : this.#tags.get(entry.tag) === entry;
  }

  isTagFree(tag: string): boolean {
    return !this.#tags.has(tag) && this.#tags.size < MAX_TAGS;
  }

  tagged(tag: string): TrackedRequest | undefined {
    return this.#tags.get(tag);
  }

  add(entry: TrackedRequest): void {
    this.#entries.set(entry.id, entry);
    if (entry.tag !== undefined) this.#tags.set(entry.tag, entry);
    else this.#current = entry;
    if (entry.isQueued) this.#revision += 1;
  }

  /**
   * The session may have a new place on this key from now on, which none of the `wait`s so far is about. Or it has the
   * same one, which a new `wait` takes over from them.
   */
  disownPlace(key: string): void {
    for (const entry of this.#entries.values()) if (entry.key === key) entry.ownsPlace = false;
  }

  /** The request is in the queue of its key. A notice may have overtaken that answer. */
  queued(entry: TrackedRequest): void {
    entry.isQueued = true;
    if (entry.state === "sent") entry.state = "waiting";
    this.#revision += 1;
  }

  withdrawing(entry: TrackedRequest): void {
    entry.state = "withdrawing";
    if (entry.isQueued && this.isListed(entry)) this.#revision += 1;
  }

  /** A request with a poll stays until the client confirms the answer. */
  answered(entry: TrackedRequest): void {
    this.unlist(entry);
    if (entry.poll !== "call") entry.state = "answered";
    else if (entry.state !== "withdrawing") this.remove(entry);
  }

  /** The client no longer needs an answer, or has one. */
  unlist(entry: TrackedRequest): void {
    if (!this.isListed(entry)) return;
    if (entry.tag !== undefined) this.#tags.delete(entry.tag);
    else this.#current = undefined;
    if (entry.isQueued) this.#revision += 1;
  }

  remove(entry: TrackedRequest): void {
    this.unlist(entry);
    if (this.has(entry)) this.#entries.delete(entry.id);
  }

  /** The client has left: its `wait`s give up their places. */
  leave(): void {
    for (const entry of this.#entries.values()) entry.isLeft = true;
  }

  /** Records a request that is only known from its withdrawal. */
  addUnlisted(entry: TrackedRequest): void {
    this.#entries.set(entry.id, entry);
  }

  /** Forgets all requests but those that are being withdrawn. */
  clear(): void {
    for (const entry of this.#entries.values()) {
      this.unlist(entry);
      if (entry.state !== "withdrawing") this.#entries.delete(entry.id);
    }
  }
}
