/** A call of one session to one key, from the moment it is made until it is answered or given up. */
export interface LaneCall<Stub> {
  /** The stub on which it is in flight. */
  on: Stub | undefined;
  /** It has failed, and is being made again. */
  isAgain: boolean;
  /** It waits for the calls before it. */
  resume: (() => void) | undefined;
}

/**
 * The calls of one session to one key, in the order in which they were made. Calls in flight on one stub arrive in order,
 * and if one of them fails because the stub breaks, so do all behind it. So a call may be sent while all before it are in
 * flight on the stub that it will use. Once one of them is made again, those behind it wait until it has been answered or
 * given up: otherwise its failures would be theirs.
 */
export class KeyLane<Stub> {
  readonly #calls = new Set<LaneCall<Stub>>();
  readonly #currentStub: () => Stub | undefined;

  constructor(currentStub: () => Stub | undefined) {
    this.#currentStub = currentStub;
  }

  get isEmpty(): boolean {
    return this.#calls.size === 0;
  }

  join(): LaneCall<Stub> {
    const call = { on: undefined, isAgain: false, resume: undefined };
    this.#calls.add(call);
    return call;
  }

  /** Whether the call may be sent now. */
  mayGo(call: LaneCall<Stub>): boolean {
    for (const earlier of this.#calls) {
      if (earlier === call) return true;
      if (!this.#isOnItsWay(earlier)) return false;
    }
    return true;
  }

  /** Resumes the call when it may be sent. The caller has to ask again: it may have to wait for another reason then. */
  wait(call: LaneCall<Stub>, resume: () => void): void {
    call.resume = resume;
    this.#resumeNext();
  }

  /** The call is in flight. Those behind it may be resumed right away. */
  sent(call: LaneCall<Stub>, stub: Stub): void {
    call.on = stub;
    this.#resumeNext();
  }

  /** The call has to be made again: its stub is no longer used. */
  failed(call: LaneCall<Stub>): void {
    call.on = undefined;
    call.isAgain = true;
  }

  /** The call has been answered or given up. */
  leave(call: LaneCall<Stub>): void {
    this.#calls.delete(call);
    this.#resumeNext();
  }

  #resumeNext(): void {
    for (const call of this.#calls) {
      const { resume } = call;
      if (resume) {
        call.resume = undefined;
        resume();
        return;
      }
      if (!this.#isOnItsWay(call)) return;
    }
  }

  /** Nothing that is sent now can arrive before it. */
  #isOnItsWay({ on, isAgain }: LaneCall<Stub>): boolean {
    return !isAgain && on !== undefined && on === this.#currentStub();
  }
}
