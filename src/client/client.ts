import { type Answer, type Caller, Calls, type Request, type WaitLimits } from "./connection/calls.ts";
import { Channel, type ChannelOptions } from "./connection/channel.ts";
import { watchPage } from "./connection/page-events.ts";
import { StatusFeed } from "./connection/status.ts";
import { type AuthError, ConnectionError, type LossReason } from "./errors.ts";
import { GRANT_MICROTASKS, MAX_LOSSES } from "./limits.ts";
import { type ClientContext, releaseToken, type SessionState } from "./locks/client-context.ts";
import type { Lock } from "./locks/lock.ts";
import { stickyLocksOf } from "./locks/sticky.ts";
import { leaveQueue } from "./locks/ticket.ts";
import type { Message } from "./wire.ts";

/** Connects the parts of a client: passes what happens to the connection on to requests and locks. */
export class Client extends Channel implements ClientContext, Caller {
  readonly status = new StatusFeed();
  readonly kept = stickyLocksOf(this);
  readonly #calls = new Calls(this);
  readonly #held = new Map<string, Lock>();
  readonly losses = new Map<string, LossReason>();
  readonly #stopListening: () => void;
  session: SessionState = {};
  #isClosed = false;

  constructor(options: ChannelOptions) {
    super(options);
    this.#stopListening = watchPage({
      returned: () => {
        this.wake();
        for (const lock of this.#locks) lock.check();
      },
      hidden: () => {
        for (const lock of this.#locks) lock.want();
      },
      frozen: () => this.detach(),
      left: () => this.leave(),
    });
    this.demand();
  }

  async ask(request: Request, limits?: WaitLimits): Promise<Answer> {
    if (this.#isClosed) throw new ConnectionError("the client is closed");
    return this.#calls.ask(request, limits);
  }

  hold(lock: Lock): void {
    this.#held.set(lock.token, lock);
    const reason = this.losses.get(lock.token);
    if (reason) queueMicrotask(() => lock.lose(reason));
  }

  drop(lock: Lock): void {
    this.#held.delete(lock.token);
  }

  override async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopListening();
    const closed = super.close();
    const error = new ConnectionError("the client is closed");
    for (const lock of this.#locks) lock.lose("disconnected");
    this.#calls.fail(error);
    this.#calls.forget(error);
    await closed;
    this.status.tell("closed");
  }

  /** A copy: callbacks may release or acquire locks during an iteration. */
  get #locks(): Lock[] {
    return [...this.#held.values()];
  }

  ready(how: "connected" | "resumed"): void {
    this.#calls.resend();
    // The service reports losses, but not those it no longer remembers: ask about each lock.
    for (const lock of this.#locks) lock.verify();
    this.status.tell(how);
  }

  interrupted(): void {
    this.status.tell("reconnecting");
  }

  refused(error: AuthError): void {
    this.#calls.fail(error);
  }

  message(message: Message): void {
    if (message.type === "answer") this.#calls.answered(message);
    else if (message.type === "lost") this.#lose(message.token, lossOf(message.reason));
    else if (message.type === "wanted") void this.#want(message.token);
  }

  #lose(token: string, reason: LossReason): void {
    const lock = this.#held.get(token);
    if (lock) lock.lose(reason);
    else {
      this.losses.set(token, reason);
      const [oldest = ""] = this.losses.keys();
      if (this.losses.size > MAX_LOSSES) this.losses.delete(oldest);
    }
  }

  async #want(token: string): Promise<void> {
    // The grant may have been read together with this notice: a few microtasks later there is a `Lock`.
    for (let count = 0; count < GRANT_MICROTASKS; count += 1) await undefined;
    this.#held.get(token)?.want();
  }

  gone(error: ConnectionError): void {
    this.session.end = error;
    this.session = {};
    for (const lock of this.#locks) lock.lose("disconnected");
    this.#calls.forget(error);
  }

  /** Gives back what was granted to a caller that no longer waits. */
  discard({ key = "", limit = 1 }: Request, { status, rest }: Answer): void {
    const [token = ""] = rest.split(" ");
    // Leave the queue instead of releasing the token: the wait of an older ticket may have taken the place over.
    if (status === "queued" || status === "acquired") void leaveQueue(this, { key, limit });
    else if (token !== "") void releaseToken(this, { key, limit }, token);
  }
}

function lossOf(word: string): LossReason {
  return word === "expired" || word === "released" ? word : "stolen";
}
