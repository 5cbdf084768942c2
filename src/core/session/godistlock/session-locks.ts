import type { FenceOutcome } from "../../engine/index.ts";
import type { ClientReply, ClientRequest } from "../../protocols/godistlock/client.ts";
import type { LineFault } from "../../protocols/godistlock/errors.ts";
import type { Outcome } from "../../protocols/statuses.ts";
import type { SessionContext } from "../context.ts";
import { newRequest, type TrackedRequest } from "../request-table.ts";
import type { Requests } from "../requests.ts";
import { faultOf } from "./faults.ts";
import type { LockRequest } from "./protocol.ts";

/** Longer than anybody waits: the protocol knows no limit. */
const FOR_EVER_S = 9_223_372_036;
/** Requests of one client that may wait at a time. */
const MAX_PARKED = 1_024;
/** After too few deployments have agreed to prolong a hold, they are asked again. */
const MIN_PAUSE_MS = 50;
const PAUSE_RANGE_MS = 100;

type Taking = Extract<ClientRequest, { readonly type: "on" | "try" }>;

export interface LocksHost {
  readonly context: SessionContext;
  readonly requests: Requests;
  /** Other deployments have to agree to grants. */
  readonly isInGroup: boolean;
  /** False when the client has ended its input. */
  mayWait(): boolean;
  say(reply: ClientReply): void;
  /** Ends the conversation. */
  fail(fault: LineFault): void;
  newId(): string;
}

/** What happens to the line that made a request: it is done, or it waits and the next line may be executed. */
type Next = () => void;

/**
 * The locks that one client has or waits for. A client knows its locks by name: the tokens of its holds are kept here.
 * `next` is called once for each request, when the next line may be executed.
 */
export class SessionLocks {
  readonly #host: LocksHost;
  readonly #holds: Map<string, string>;
  /** By id: those that wait, and the one that is being carried out. */
  readonly #taking = new Map<string, LockRequest & { next: Next | undefined }>();
  #prolonging = 0;
  #revision = 0;

  constructor(host: LocksHost, holds: Iterable<readonly [string, string]>, parked: readonly LockRequest[]) {
    this.#host = host;
    this.#holds = new Map(holds);
    for (const each of parked) {
      this.#taking.set(each.id, { ...each, next: undefined });
      const entry = { id: each.id, key: each.lock, type: "acquire", tag: each.id, state: "waiting" } as const;
      host.requests.table.add(newRequest({ ...entry, isQueued: true }));
    }
  }

  /** Changes whenever `holds` or `parked` do. */
  get revision(): number {
    return this.#revision;
  }

  get holds(): readonly (readonly [string, string])[] {
    return [...this.#holds];
  }

  get parked(): readonly LockRequest[] {
    return Array.from(this.#taking.values(), ({ next: _, ...request }) => request);
  }

  take(request: Taking, next: Next): void {
    const { lock, nonce, timeoutMs } = request;
    const waiting = request.type === "on" ? this.#waitingOn(lock) : undefined;
    if (this.#holds.has(lock)) this.#retake(request, next);
    else if (!this.#hasRoom(nonce)) return;
    else if (waiting) {
      this.#set({ ...waiting, nonces: [...waiting.nonces, nonce], timeoutMs });
      next();
    } else this.#acquire(request.type, lock, [nonce], timeoutMs, next);
  }

  refresh({ lock, fence, timeoutMs, nonce }: Extract<ClientRequest, { readonly type: "refresh" }>, next: Next): void {
    const token = this.#holds.get(lock);
    if (token === undefined || fenceOf(token) !== fence) {
      this.look(lock, nonce, next);
      return;
    }
    this.#prolong(lock, token, timeoutMs, nonce, next, (outcome, then) => {
      if (outcome === "prolonged") this.#give([nonce], token, then);
      else if (outcome === "kept") this.#locked(nonce, fenceOf(token), then);
      else this.look(lock, nonce, then);
    });
  }

  release(lock: string, next: Next): void {
    const { context, requests } = this.#host;
    const token = this.#holds.get(lock);
    const waiting = this.#waitingOn(lock);
    if (token !== undefined) {
      this.#forgetHold(lock);
      const ask = { type: "release", token, session: context.session } as const;
      const done = () => {
        requests.lost(lock, token);
        next();
      };
      // The session still knows the key, and leaves it when it ends.
      context.callKey(lock, ask, { answered: done, failed: () => this.#host.fail({ word: "internal", nonce: "-" }) });
    } else if (waiting) {
      const entry = requests.table.get(waiting.id);
      this.#taking.delete(waiting.id);
      this.#revision += 1;
      if (entry) requests.drop(entry);
      for (const nonce of waiting.nonces) this.#host.say({ type: "no", nonce });
      next();
    } else next();
  }

  /** Says who has the lock, whoever that is. */
  look(lock: string, nonce: string, next: Next): void {
    this.#look(lock, nonce, (fence) => {
      if (fence === undefined) this.#host.say({ type: "no", nonce });
      else this.#host.say({ type: "lock", nonce, fence });
      next();
    });
  }

  /** A hold has ended without the client releasing it. The client is not told. */
  lost(lock: string, token: string): void {
    if (this.#holds.get(lock) === token) this.#forgetHold(lock);
  }

  /** The key has put the request into its queue. */
  waits({ id }: TrackedRequest): void {
    const request = this.#taking.get(id);
    if (!request) return;
    const { next } = request;
    request.next = undefined;
    this.#revision += 1;
    next?.();
  }

  /** The request ends without an answer. */
  dropped({ id }: TrackedRequest): void {
    this.#taking.delete(id);
  }

  answered({ id }: TrackedRequest, outcome: Outcome): void {
    const request = this.#taking.get(id);
    if (!request) return;
    this.#taking.delete(id);
    this.#revision += 1;
    const { lock, kind, nonces, next = () => {} } = request;
    const [nonce = ""] = nonces;
    if (outcome.token !== undefined) this.#granted(request, outcome.token, next);
    else if (outcome.status === "lease_expired") this.#acquire(kind, lock, nonces, request.timeoutMs, next);
    else if (outcome.refusal?.status === "no_quorum") this.#host.fail({ word: "no-quorum", nonce });
    else if (outcome.refusal) this.#locked(nonce, outcome.refusal.fence, next);
    // A request that does not wait is not concerned by how many do.
    else if (outcome.status === "timeout" || (kind === "try" && outcome.status === "max_waiters"))
      this.#look(lock, nonce, (fence) => this.#locked(nonce, fence ?? 0n, next));
    else this.#host.fail({ word: faultOf(outcome.status), nonce });
  }

  #acquire(kind: "on" | "try", lock: string, nonces: readonly string[], timeoutMs: number, next: Next): void {
    const { requests, isInGroup } = this.#host;
    const id = this.#host.newId();
    this.#taking.set(id, { id, lock, kind, nonces, askedMs: timeoutMs, timeoutMs, next });
    const waitSeconds = kind === "on" ? FOR_EVER_S : 0;
    const request = { type: "acquire", key: lock, limit: 1, waitSeconds, leaseSeconds: timeoutMs / 1000 } as const;
    const quorum = isInGroup ? ({ quorum: kind === "on" ? "until_agreed" : "once" } as const) : undefined;
    const circumstances = { mayWait: this.#host.mayWait(), isWatched: true, ...quorum };
    requests.begin(newRequest({ id, key: lock, type: "acquire", tag: id }), request, circumstances);
  }

  #granted({ lock, kind, nonces, askedMs, timeoutMs }: LockRequest, token: string, next: Next): void {
    if (askedMs === timeoutMs) {
      this.#hold(lock, token);
      this.#give(nonces, token, next);
      return;
    }
    const [nonce = ""] = nonces;
    this.#prolong(lock, token, timeoutMs, nonce, next, (outcome, then) => {
      if (outcome === "not_held") this.#acquire(kind, lock, nonces, timeoutMs, then);
      else {
        this.#hold(lock, token);
        this.#give(nonces, token, then);
      }
    });
  }

  /** The client asks for a lock that it has. */
  #retake(request: Taking, next: Next): void {
    const { type, lock, timeoutMs, nonce } = request;
    const token = this.#holds.get(lock);
    if (token === undefined) {
      this.take(request, next);
      return;
    }
    this.#prolong(lock, token, timeoutMs, nonce, next, (outcome, then) => {
      if (outcome === "prolonged") this.#give([nonce], token, then);
      else if (outcome === "not_held") {
        this.#forgetHold(lock);
        this.#acquire(type, lock, [nonce], timeoutMs, then);
      } else if (type === "try") this.#locked(nonce, fenceOf(token), then);
      else this.#retryLater(request, then);
    });
  }

  #retryLater(request: Taking, next: Next): void {
    const { context } = this.#host;
    const pauseMs = MIN_PAUSE_MS + (Number.parseInt(context.random().slice(0, 4), 16) % PAUSE_RANGE_MS);
    this.#prolonging += 1;
    context.timers.at(context.now + pauseMs, () => {
      this.#prolonging -= 1;
      this.#retake(request, next);
    });
  }

  /** Restarts a lease. In a group that takes time, and the next line is executed meanwhile. */
  #prolong(
    lock: string,
    token: string,
    leaseMs: number,
    nonce: string,
    next: Next,
    then: (outcome: "prolonged" | "kept" | "not_held", next: Next) => void,
  ): void {
    const { context, isInGroup } = this.#host;
    const failed = () => this.#host.fail({ word: "internal", nonce });
    if (!isInGroup) {
      const ask = { type: "renew", token, leaseSeconds: leaseMs / 1000 } as const;
      const answered = ({ status }: { status: string }) => then(status === "renewed" ? "prolonged" : "not_held", next);
      context.callKey(lock, ask, { answered, failed });
      return;
    }
    if (!this.#hasRoom(nonce)) return;
    this.#prolonging += 1;
    const done = () => {
      this.#prolonging -= 1;
    };
    const ask = { type: "prolong", token, session: context.session, leaseMs } as const;
    context.callKey(lock, ask, {
      answered: ({ status }) => {
        done();
        then(status, () => {});
      },
      failed: () => {
        done();
        failed();
      },
    });
    next();
  }

  #look(lock: string, nonce: string, then: (fence: bigint | undefined) => void): void {
    const failed = () => this.#host.fail({ word: "internal", nonce });
    const answered = (outcome: FenceOutcome) => then(outcome.status === "held" ? outcome.fence : undefined);
    this.#host.context.callKey(lock, { type: "fenceOfHolder" }, { answered, failed });
  }

  #give(nonces: readonly string[], token: string, next: Next): void {
    for (const nonce of nonces) this.#host.say({ type: "give", nonce, fence: fenceOf(token) });
    next();
  }

  #locked(nonce: string, fence: bigint, next: Next): void {
    this.#host.say({ type: "lock", nonce, fence });
    next();
  }

  #hasRoom(nonce: string): boolean {
    let parked = this.#prolonging;
    for (const { nonces } of this.#taking.values()) parked += nonces.length;
    if (parked < MAX_PARKED) return true;
    this.#host.fail({ word: "too-many-requests", nonce });
    return false;
  }

  #waitingOn(lock: string): (LockRequest & { next: Next | undefined }) | undefined {
    for (const request of this.#taking.values()) if (request.kind === "on" && request.lock === lock) return request;
    return undefined;
  }

  #set(request: LockRequest & { next: Next | undefined }): void {
    this.#taking.set(request.id, request);
    this.#revision += 1;
  }

  #hold(lock: string, token: string): void {
    this.#holds.set(lock, token);
    this.#revision += 1;
  }

  #forgetHold(lock: string): void {
    this.#holds.delete(lock);
    this.#revision += 1;
  }
}

function fenceOf(token: string): bigint {
  return BigInt(`0x${token.slice(0, 16)}`);
}
