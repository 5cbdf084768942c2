import { type Moment, momentOf } from "../clock.ts";
import { CapacityError } from "../errors.ts";
import { frameOf, limitArg, MAX_CLAIMS, type Message } from "../wire.ts";
import type { Channel } from "./channel.ts";

export interface Request {
  readonly command: "l" | "e" | "w" | "n" | "r" | "steal" | "query" | "stats" | "ping";
  readonly key?: string;
  /** Slots of the key; 1, a lock, unless said otherwise. */
  readonly limit?: number;
  readonly arg?: string;
  /** May be granted a slot or a place in the queue, which must be given back if the caller no longer wants it. */
  readonly isClaim?: true;
  /** Sent even if the caller no longer waits for the answer. */
  readonly mustArrive?: true;
  /** Not sent: the request waits for its turn in this local queue, which is its answer. */
  readonly queue?: QueuedCaller[];
}

/** A caller in a local queue. Called when its turn comes; false if it no longer waits. */
export type QueuedCaller = () => boolean;

/** When a caller stops waiting for an answer. */
export interface WaitLimits {
  readonly signal?: AbortSignal | undefined;
  /** Undefined means no limit. */
  readonly withinMs?: number | undefined;
  /** The error after `withinMs`. */
  readonly tooLate?: () => Error;
}

export interface Answer {
  readonly status: string;
  /** What follows the status. */
  readonly rest: string;
  /** Earliest time at which the answer can be true. */
  readonly sentAt: Moment;
  /** The request was sent more than once; an earlier one may have been carried out. */
  readonly isRepeated: boolean;
}

interface Call extends Request {
  readonly tag: string;
  readonly settle: (outcome: Answer | Error) => void;
  firstSentAt?: Moment;
  lastSentAt?: Moment;
  isAbandoned?: true;
  hasNewToken?: true;
}

/** The connection that carries the requests. */
export interface Caller
  extends Pick<Channel, "clock" | "isReady" | "nextTag" | "send" | "proved" | "demand" | "refresh"> {
  /** Takes back what an answer gave to a caller that no longer wants it. */
  discard(request: Request, answer: Answer): void;
}

/**
 * Requests in flight. Requests that are unanswered when a connection is lost are sent again in the same session under
 * the same tag, so the service carries them out once. Nothing is sent again in another session.
 */
export class Calls {
  readonly #caller: Caller;
  readonly #calls = new Map<string, Call>();
  #claims = 0;

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Resolves with the answer, whatever it says. Rejects when a limit is reached, or the session is gone. */
  ask(request: Request, { signal, withinMs, tooLate }: WaitLimits = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) throw signal.reason;
      if (request.isClaim && this.#claims >= MAX_CLAIMS)
        throw new CapacityError("too_many_requests", request.key ?? "");
      const end = () => {
        cancelTimer?.();
        signal?.removeEventListener("abort", abort);
      };
      const settle = (outcome: Answer | Error) => {
        end();
        if (outcome instanceof Error) reject(outcome);
        else resolve(outcome);
      };
      const leave = (reason: unknown) => {
        end();
        reject(reason);
        this.#abandon(call);
      };
      const abort = () => leave(signal?.reason);
      const call = this.#add(request, settle);
      const cancelTimer =
        withinMs === undefined ? undefined : this.#caller.clock.after(withinMs, () => leave(tooLate?.()));
      signal?.addEventListener("abort", abort);
      if (request.queue)
        request.queue.push(() => {
          if (!call.isAbandoned) settle({} as Answer);
          this.#remove(call);
          return !call.isAbandoned;
        });
      else if (this.#caller.isReady) this.#send(call);
      else this.#caller.demand();
    });
  }

  answered({ tag, status, rest }: Extract<Message, { type: "answer" }>): void {
    const call = this.#calls.get(tag);
    if (!call?.firstSentAt) return;
    const { firstSentAt, lastSentAt = firstSentAt } = call;
    this.#caller.proved(lastSentAt);
    if (status === "error_auth" && !call.isAbandoned && !call.hasNewToken && this.#caller.refresh()) {
      // Unanswered, so it is sent again on the next connection.
      call.hasNewToken = true;
      return;
    }
    this.#remove(call);
    const isRepeated = lastSentAt !== firstSentAt;
    const answer = { status, rest, sentAt: call.isClaim ? firstSentAt : lastSentAt, isRepeated };
    if (call.isAbandoned) this.#caller.discard(call, answer);
    else call.settle(answer);
  }

  /** The session was resumed on another connection. */
  resend(): void {
    for (const call of this.#calls.values()) this.#send(call);
  }

  /** Rejects all requests. If the session is resumed, what they are granted is given back. */
  fail(error: Error): void {
    for (const call of [...this.#calls.values()]) {
      if (!call.isAbandoned) call.settle(error);
      this.#abandon(call);
    }
  }

  /** The session is gone: rejects all requests that were sent in it, and waits for its places in queues. */
  forget(error: Error): void {
    for (const call of [...this.#calls.values()]) {
      if (!call.firstSentAt && call.command !== "w") continue;
      this.#remove(call);
      if (!call.isAbandoned) call.settle(error);
    }
  }

  #add(request: Request, settle: Call["settle"]): Call {
    const call: Call = { ...request, tag: this.#caller.nextTag(), settle };
    this.#calls.set(call.tag, call);
    if (call.isClaim) this.#claims += 1;
    return call;
  }

  #remove(call: Call): void {
    if (this.#calls.delete(call.tag) && call.isClaim) this.#claims -= 1;
  }

  #send(call: Call): void {
    if (call.queue) return;
    call.lastSentAt = momentOf(this.#caller.clock);
    call.firstSentAt ??= call.lastSentAt;
    // An abandoned steal must not take the key now. What it was granted before is given back.
    const [command, arg] =
      call.isAbandoned && call.command === "steal" ? withoutStealing(call) : [commandOf(call), call.arg];
    this.#caller.send(frameOf(call.tag, command, call.key, arg));
    if (call.isAbandoned && call.isClaim) this.#cancel(call);
  }

  /** The caller has stopped waiting. A claim is cancelled, and kept until the service has answered. */
  #abandon(call: Call): void {
    if (call.isAbandoned) return;
    call.isAbandoned = true;
    if (call.firstSentAt) {
      if (call.isClaim) this.#cancel(call);
    } else if (!call.mustArrive) this.#remove(call);
  }

  #cancel({ tag }: Call): void {
    this.#caller.send(frameOf(this.#caller.nextTag(), "cancel", "_", tag));
  }
}

/** The same request, under the same tag, that neither waits nor steals. */
function withoutStealing({ limit = 1 }: Request): [string, string] {
  return [commandOf({ command: "l", limit }), `0${limitArg(limit)}`];
}

/** Semaphores have their own commands: a ticket may cover locks or semaphores only. */
function commandOf({ command, limit = 1 }: Request): string {
  return limit === 1 || command === "steal" ? command : `s${command}`;
}
