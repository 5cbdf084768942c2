import { randomHex } from "../../hex.ts";

const MAX_TAGS = 1_024;
const WEIGHT_OF_REQUEST = 128;

/** A request in flight: being executed, or waiting at its key. */
export interface RunningRequest {
  readonly id: string;
  readonly key: string | undefined;
  readonly tag: string | undefined;
  isWaiting: boolean;
}

/** A waiting request as kept during sleep. */
export interface Waiting {
  readonly id: string;
  readonly key: string;
  readonly tag: string | undefined;
}

/** The requests in flight of one client: at most one untagged, and one per tag. */
export class RunningRequests {
  readonly #all = new Map<string, RunningRequest>();
  readonly #tags = new Set<string>();
  /** Ids are unique across restarts of the object: each start has its own prefix. */
  readonly #prefix = randomHex(8);
  #lastId = 0;
  #current: RunningRequest | undefined;

  constructor(waiting: readonly Waiting[]) {
    for (const each of waiting) this.#add({ ...each, isWaiting: true });
  }

  get size(): number {
    return this.#all.size;
  }

  /** Approximate size of the state to keep during sleep, in bytes. */
  get weight(): number {
    return this.#all.size * WEIGHT_OF_REQUEST;
  }

  /** The untagged request in flight. */
  get current(): RunningRequest | undefined {
    return this.#current;
  }

  /** The untagged request waits, and with it all untagged requests behind it. */
  get isBlocked(): boolean {
    return this.#current?.isWaiting === true;
  }

  get waiting(): (RunningRequest & Waiting)[] {
    return [...this.#all.values()].filter(
      (each): each is RunningRequest & Waiting => each.isWaiting && each.key !== undefined,
    );
  }

  get(id: string): RunningRequest | undefined {
    return this.#all.get(id);
  }

  isTagFree(tag: string): boolean {
    return !this.#tags.has(tag) && this.#tags.size < MAX_TAGS;
  }

  tagged(tag: string): RunningRequest | undefined {
    return [...this.#all.values()].find((running) => running.tag === tag);
  }

  /** `id` is given for requests that may be repeated; others get a new one. */
  begin(key: string | undefined, tag: string | undefined, id = this.#newId()): RunningRequest {
    return this.#add({ id, key, tag, isWaiting: false });
  }

  end({ id, tag }: RunningRequest): void {
    this.#all.delete(id);
    if (tag !== undefined) this.#tags.delete(tag);
    else this.#current = undefined;
  }

  #newId(): string {
    this.#lastId += 1;
    return `${this.#prefix}.${this.#lastId}`;
  }

  #add(running: RunningRequest): RunningRequest {
    this.#all.set(running.id, running);
    if (running.tag !== undefined) this.#tags.add(running.tag);
    else this.#current = running;
    return running;
  }
}
