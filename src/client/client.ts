import { type Answer, type Caller, Calls, type Patience, type Request } from "./connection/calls.ts";
import { Channel, type ChannelOptions } from "./connection/channel.ts";
import { watchPage } from "./connection/page-events.ts";
import { StatusFeed } from "./connection/status.ts";
import { type AuthError, ConnectionError, type LossReason } from "./errors.ts";
import { MAX_LOSSES, MICROTASKS } from "./limits.ts";
import { giveBack, type Host, type SessionFate } from "./locks/host.ts";
import type { Lock } from "./locks/lock.ts";
import { staysOf } from "./locks/sticky.ts";
import { leavePlace } from "./locks/ticket.ts";
import type { Message } from "./wire.ts";

/** Holds a client's parts together: what happens to its connection happens to its requests and locks. */
export class Client extends Channel implements Host, Caller {
  readonly status = new StatusFeed();
  readonly stays = staysOf(this);
  readonly #calls = new Calls(this);
  readonly #held = new Map<string, Lock>();
  readonly losses = new Map<string, LossReason>();
  readonly #stopListening: () => void;
  session: SessionFate = {};
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
      frozen: () => this.part(),
      left: () => this.leave(),
    });
    this.demand();
  }

  async ask(request: Request, patience?: Patience): Promise<Answer> {
    if (this.#isClosed) throw new ConnectionError("the client is closed");
    return this.#calls.ask(request, patience);
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

  /** As they are now: whoever is told may release or acquire others. */
  get #locks(): Lock[] {
    return [...this.#held.values()];
  }

  ready(how: "connected" | "resumed"): void {
    this.#calls.resend();
    // What was lost meanwhile is told, but not if the service forgot it, and only what it knows of.
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
    // Its grant may have been read in the same go: a few microtasks later it is a lock.
    for (let count = 0; count < MICROTASKS; count += 1) await undefined;
    this.#held.get(token)?.want();
  }

  gone(error: ConnectionError): void {
    this.session.end = error;
    this.session = {};
    for (const lock of this.#locks) lock.lose("disconnected");
    this.#calls.forget(error);
  }

  /** A claim was carried out for somebody who has left. */
  discard({ key = "", limit = 1 }: Request, { status, rest }: Answer): void {
    const [token = ""] = rest.split(" ");
    // A place that has come up is given up as one: a wait of an older ticket may have taken it over, with its token.
    if (status === "queued" || status === "acquired") void leavePlace(this, { key, limit });
    else if (token !== "") void giveBack(this, { key, limit }, token);
  }
}

function lossOf(word: string): LossReason {
  return word === "expired" || word === "released" ? word : "stolen";
}
