import type { FenceOutcome } from "../../engine/index.ts";
import type { ClientReply, ClientRequest } from "../../protocols/godistlock/client.ts";
import type { LineFault } from "../../protocols/godistlock/errors.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import type { SessionContext } from "../context.ts";
import { newRequest, type TrackedRequest } from "../request-table.ts";
import type { Requests } from "../requests.ts";
import { faultOf } from "./faults.ts";
import type { ParkedRequest } from "./protocol.ts";

/** In effect no limit: the protocol has none. */
const FOR_EVER_S = 9_223_372_036;
/** Requests of one client that may wait at a time. */
const MAX_PARKED = 1_024;
/** After too few deployments have agreed to prolong a hold, they are asked again. */
const MIN_PAUSE_MS = 50;
const PAUSE_RANGE_MS = 100;
/** A `TRY` gives up after as many grants whose leases were over before it could be told: commits are slower than its lease. */
const MAX_MISSED = 16;

type Taking = Extract<ClientRequest, { readonly type: "on" | "try" }>;

export interface LocksHost {
  readonly context: SessionContext;
  readonly requests: Requests;
  /** Other deployments have to agree to grants. */
  readonly isInGroup: boolean;
  /** False when the client has ended its input. */
  mayWait(): boolean;
  say(reply: ClientReply): void;
  /** Tells the client that it has the lock. */
  give(given: Given): void;
  /** Ends the conversation. */
  fail(fault: LineFault): void;
  newId(): string;
}

/** A hold, as the answer to the request with this nonce. */
export interface Given {
  readonly key: string;
  readonly token: string;
  readonly nonce: string;
  /** Runs instead of the answer if the lease has ended before it could be sent. */
  late(): void;
}

interface Hold {
  readonly token: string;
  /** The client has sent `OFF`. */
  isReleased: boolean;
}

/** What happens to the line that made a request: it is done, or it waits and the next line may be executed. */
type Next = () => void;

/** A request that waits, or is being carried out. */
interface Taken extends ParkedRequest {
  /** Undefined once the next line may be executed. */
  readonly next: Next | undefined;
  /** The hold that it has, if it only has to be given the lease that the client wants. */
  readonly hold?: Hold;
  /** Grants whose leases were over before the client could be told of them. */
  readonly missed: number;
}

/** A request that is answered with its hold. */
interface Granted extends Pick<Taken, "lock" | "nonces" | "timeoutMs" | "missed"> {
  readonly kind: Taken["kind"] | "refresh";
}

/**
 * The locks that one client has or waits for. A client knows its locks by name: the tokens of its holds are kept here.
 * `next` is called once for each request, when the next line may be executed.
 */
export class SessionLocks {
  readonly #host: LocksHost;
  /** From the moment they are granted, whether or not the client has been told. */
  readonly #holds: Map<string, Hold>;
  /** By id, in the order sent. */
  readonly #taking = new Map<string, Taken>();
  #refreshing = 0;
  #revision = 0;

  constructor(host: LocksHost, holds: Iterable<readonly [string, string]>, parked: readonly ParkedRequest[]) {
    this.#host = host;
    this.#holds = new Map(Array.from(holds, ([lock, token]) => [lock, { token, isReleased: false }]));
    for (const each of parked) {
      this.#taking.set(each.id, { ...each, next: undefined, missed: 0 });
      const entry = { id: each.id, key: each.lock, type: "acquire", tag: each.id, state: "waiting" } as const;
      host.requests.table.add(newRequest({ ...entry, isQueued: true }));
    }
  }

  /** Changes whenever `holds` or `parked` do. */
  get revision(): number {
    return this.#revision;
  }

  get holds(): readonly (readonly [string, string])[] {
    return Array.from(this.#holds, ([lock, { token }]) => [lock, token] as const);
  }

  /** Without those that have their hold: setting its lease keeps the object awake. */
  get parked(): readonly ParkedRequest[] {
    return [...this.#taking.values()].flatMap(({ next: _, hold, missed: __, ...request }) => (hold ? [] : [request]));
  }

  take({ type: kind, lock, nonce, timeoutMs }: Taking, next: Next): void {
    const mayPark = !this.#holds.has(lock) || this.#host.isInGroup;
    if (mayPark && !this.#hasRoom(nonce)) return;
    this.#take(kind, lock, nonce, timeoutMs, next, 0);
  }

  #take(kind: Taken["kind"], lock: string, nonce: string, timeoutMs: number, next: Next, missed: number): void {
    const waiting = kind === "on" ? this.#waitingOn(lock) : undefined;
    const hold = this.#holds.get(lock);
    if (waiting) {
      this.#set({ ...waiting, nonces: [...waiting.nonces, nonce], timeoutMs });
      next();
    } else if (!hold) this.#acquire(kind, lock, [nonce], timeoutMs, next, missed);
    else {
      const id = this.#host.newId();
      // No lease that can be asked for: it is set in any case.
      this.#set({ id, lock, kind, nonces: [nonce], askedMs: 0, timeoutMs, next, hold, missed });
      this.#setLease(id, hold);
    }
  }

  refresh({ lock, fence, timeoutMs, nonce }: Extract<ClientRequest, { readonly type: "refresh" }>, next: Next): void {
    const hold = this.#holds.get(lock);
    if (!hold || fenceOf(hold.token) !== fence) {
      this.look(lock, nonce, next);
      return;
    }
    const { isInGroup } = this.#host;
    if (isInGroup && !this.#hasRoom(nonce)) return;
    this.#refreshing += 1;
    const then = isInGroup ? () => {} : next;
    this.#prolong(lock, hold.token, timeoutMs, nonce, (outcome) => {
      this.#refreshing -= 1;
      if (outcome === "prolonged")
        this.#give({ kind: "refresh", lock, nonces: [nonce], timeoutMs, missed: 0 }, hold, then);
      else if (outcome === "kept") this.#locked(nonce, fenceOf(hold.token), then);
      else this.look(lock, nonce, then);
    });
    if (isInGroup) next();
  }

  /** Withdraws what the client has asked for before and has not been answered, and releases what it has. */
  release(lock: string, next: Next): void {
    const { context, requests } = this.#host;
    for (const request of this.#taking.values()) if (request.lock === lock) this.#withdraw(request);
    const hold = this.#holds.get(lock);
    if (!hold) {
      next();
      return;
    }
    const { token } = hold;
    hold.isReleased = true;
    this.#forgetHold(lock, hold);
    const ask = { type: "release", token, session: context.session, id: this.#host.newId() } as const;
    const done = () => {
      requests.lost(lock, token);
      next();
    };
    // The session still knows the key, and leaves it when it ends.
    context.callKey(lock, ask, { answered: done, failed: () => this.#host.fail({ word: "internal", nonce: "-" }) });
  }

  /** Replies with the fence of the current holder, which may be another client. */
  look(lock: string, nonce: string, next: Next): void {
    this.#look(lock, nonce, (fence) => {
      if (fence === undefined) this.#host.say({ type: "no", nonce });
      else this.#host.say({ type: "lock", nonce, fence });
      next();
    });
  }

  /** A hold has ended without the client releasing it. The client is not told. */
  lost(lock: string, token: string): void {
    this.#forgetHold(lock, { token });
  }

  /** The key has put the request into its queue. */
  waits({ id }: TrackedRequest): void {
    this.#parks(id);
  }

  /** The request ends without an answer. */
  dropped({ id }: TrackedRequest): void {
    this.#taking.delete(id);
  }

  answered({ id }: TrackedRequest, outcome: Outcome): void {
    const request = this.#taking.get(id);
    if (!request) return;
    const { lock, kind, nonces, timeoutMs, missed, next = () => {} } = request;
    const [nonce = ""] = nonces;
    if (outcome.token !== undefined) {
      const hold = { token: outcome.token, isReleased: false };
      this.#holds.set(lock, hold);
      this.#revision += 1;
      this.#set({ ...request, hold });
      this.#setLease(id, hold);
      return;
    }
    this.#end(request);
    if (outcome.status === "lease_expired") this.#acquire(kind, lock, nonces, timeoutMs, next, missed);
    else if (outcome.refusal?.status === "no_quorum") this.#host.fail({ word: "no-quorum", nonce });
    else if (outcome.refusal) this.#locked(nonce, outcome.refusal.fence, next);
    // A request that does not wait is not concerned by how many do.
    else if (outcome.status === "timeout" || (kind === "try" && outcome.status === "max_waiters"))
      this.#look(lock, nonce, (fence) => this.#locked(nonce, fence ?? 0n, next));
    else this.#host.fail({ word: faultOf(outcome.status), nonce });
  }

  #acquire(
    kind: "on" | "try",
    lock: string,
    nonces: readonly string[],
    timeoutMs: number,
    next: Next,
    missed: number,
  ): void {
    const { requests, isInGroup } = this.#host;
    const id = this.#host.newId();
    this.#set({ id, lock, kind, nonces, askedMs: timeoutMs, timeoutMs, next, missed });
    const waitSeconds = kind === "on" ? FOR_EVER_S : 0;
    const request = { type: "acquire", key: lock, limit: 1, waitSeconds, leaseSeconds: timeoutMs / 1000 } as const;
    const quorum = isInGroup ? ({ quorum: kind === "on" ? "until_agreed" : "once" } as const) : undefined;
    const circumstances = { mayWait: this.#host.mayWait(), isWatched: true, ...quorum };
    requests.begin(newRequest({ id, key: lock, type: "acquire", tag: id }), request, circumstances);
  }

  /**
   * Answers a request that has its hold, once its lease is the one that the client wants by then. Meanwhile other `ON`s
   * may join it, and an `OFF` withdraw it. In a group it is parked, because the others have to be asked.
   */
  #setLease(id: string, hold: Hold): void {
    const request = this.#taking.get(id);
    if (!request) return;
    const { lock, kind, nonces, askedMs, timeoutMs } = request;
    const [nonce = ""] = nonces;
    if (this.#holds.get(lock) !== hold) {
      this.#askAgain(request);
      return;
    }
    if (askedMs === timeoutMs) {
      this.#end(request);
      this.#give(request, hold, request.next);
      return;
    }
    this.#prolong(lock, hold.token, timeoutMs, nonce, (outcome) => {
      // It may have been withdrawn, or joined by others.
      const now = this.#taking.get(id);
      if (!now) return;
      if (outcome === "not_held") this.#forgetHold(lock, hold);
      if (outcome === "prolonged") this.#set({ ...now, askedMs: timeoutMs });
      if (outcome !== "kept" || this.#holds.get(lock) !== hold) this.#setLease(id, hold);
      else if (kind === "on") this.#retryLater(id, hold);
      else {
        this.#end(now);
        this.#locked(nonce, fenceOf(hold.token), now.next);
      }
    });
    if (this.#host.isInGroup) this.#parks(id);
  }

  /** The hold of this request has ended before its client was told of it. */
  #askAgain(request: Taken): void {
    const { kind, lock, nonces, timeoutMs, missed, next = () => {} } = request;
    this.#end(request);
    this.#acquire(kind, lock, nonces, timeoutMs, next, missed);
  }

  #retryLater(id: string, hold: Hold): void {
    const { context } = this.#host;
    const pauseMs = MIN_PAUSE_MS + (Number.parseInt(context.random().slice(0, 4), 16) % PAUSE_RANGE_MS);
    context.timers.at(context.now + pauseMs, () => this.#setLease(id, hold));
  }

  /** The next line may be executed before this request is answered. */
  #parks(id: string): void {
    const request = this.#taking.get(id);
    if (!request) return;
    this.#set({ ...request, next: undefined });
    request.next?.();
  }

  /** The client no longer wants what it has asked for, and has not been answered. */
  #withdraw(request: Taken): void {
    const { requests } = this.#host;
    this.#end(request);
    const entry = request.hold ? undefined : requests.table.get(request.id);
    if (entry) requests.drop(entry);
    for (const nonce of request.nonces) this.#withdrawn(request.kind, nonce);
  }

  #withdrawn(kind: Taken["kind"], nonce: string): void {
    if (kind === "on") this.#host.say({ type: "no", nonce });
    else this.#host.say({ type: "lock", nonce, fence: 0n });
  }

  /** Restarts a lease. `kept`: too few deployments have agreed, and the lease is as it was. */
  #prolong(
    lock: string,
    token: string,
    leaseMs: number,
    nonce: string,
    then: (outcome: "prolonged" | "kept" | "not_held") => void,
  ): void {
    const { context, isInGroup } = this.#host;
    const failed = () => this.#host.fail({ word: "internal", nonce });
    if (isInGroup) {
      const ask = { type: "prolong", token, session: context.session, leaseMs } as const;
      context.callKey(lock, ask, { answered: ({ status }) => then(status), failed });
    } else {
      const ask = { type: "renew", token, leaseSeconds: leaseMs / 1000 } as const;
      const answered = ({ status }: { status: string }) => then(status === "renewed" ? "prolonged" : "not_held");
      context.callKey(lock, ask, { answered, failed });
    }
  }

  #look(lock: string, nonce: string, then: (fence: bigint | undefined) => void): void {
    const failed = () => this.#host.fail({ word: "internal", nonce });
    const answered = (outcome: FenceOutcome) => then(outcome.status === "held" ? outcome.fence : undefined);
    this.#host.context.callKey(lock, { type: "fenceOfHolder" }, { answered, failed });
  }

  #give(granted: Granted, hold: Hold, next: Next | undefined): void {
    const { lock, nonces } = granted;
    for (const nonce of nonces) {
      const late = () => this.#late(granted, nonce, hold);
      this.#host.give({ key: lock, token: hold.token, nonce, late });
    }
    next?.();
  }

  /** The lease has ended before the client could be told of the hold. It has not been answered: the lock is asked for again. */
  #late({ kind, lock, timeoutMs, missed }: Granted, nonce: string, hold: Hold): void {
    this.#forgetHold(lock, hold);
    const next = () => {};
    if (kind === "refresh") this.look(lock, nonce, next);
    else if (hold.isReleased) this.#withdrawn(kind, nonce);
    else if (kind === "on" || missed < MAX_MISSED) this.#take(kind, lock, nonce, timeoutMs, next, missed + 1);
    else this.#look(lock, nonce, (fence) => this.#locked(nonce, fence ?? 0n, next));
  }

  #locked(nonce: string, fence: bigint, next: Next | undefined): void {
    this.#host.say({ type: "lock", nonce, fence });
    next?.();
  }

  #hasRoom(nonce: string): boolean {
    let parked = this.#refreshing;
    for (const { nonces } of this.#taking.values()) parked += nonces.length;
    if (parked < MAX_PARKED) return true;
    this.#host.fail({ word: "too-many-requests", nonce });
    return false;
  }

  #waitingOn(lock: string): Taken | undefined {
    for (const request of this.#taking.values()) if (request.kind === "on" && request.lock === lock) return request;
    return undefined;
  }

  #set(request: Taken): void {
    this.#taking.set(request.id, request);
    if (!request.hold) this.#revision += 1;
  }

  #end({ id, hold }: Taken): void {
    this.#taking.delete(id);
    if (!hold) this.#revision += 1;
  }

  /** Unless the lock has been granted again since. */
  #forgetHold(lock: string, { token }: Pick<Hold, "token">): void {
    if (this.#holds.get(lock)?.token !== token) return;
    this.#holds.delete(lock);
    this.#revision += 1;
  }
}

export function fenceOf(token: string): bigint {
  return BigInt(`0x${token.slice(0, 16)}`);
}
