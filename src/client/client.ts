import type { Clock } from "./clock.ts";
import { type Answer, Calls, type Patience, type Request } from "./connection/calls.ts";
import { Channel, type ChannelOptions } from "./connection/channel.ts";
import { watchPage } from "./connection/page-events.ts";
import { StatusFeed } from "./connection/status.ts";
import { ConnectionError, type LossReason } from "./errors.ts";
import { giveBack, type Host, type SessionFate } from "./locks/host.ts";
import type { Lock } from "./locks/lock.ts";
import { leavePlace } from "./locks/ticket.ts";
import type { Message } from "./wire.ts";

const MAX_LOSSES = 64;

/** Holds a client's parts together: what happens to its connection happens to its requests and locks. */
export class Client implements Host {
  readonly clock: Clock;
  readonly status = new StatusFeed();
  readonly #channel: Channel;
  readonly #calls: Calls;
  readonly #held = new Map<string, Lock>();
  readonly losses = new Map<string, LossReason>();
  readonly #stopListening: () => void;
  #session: SessionFate = {};
  #isClosed = false;

  constructor(options: ChannelOptions) {
    this.clock = options.clock;
    this.#channel = new Channel(options, {
      ready: (how) => this.#becomeReady(how),
      message: (message) => this.#hear(message),
      interrupted: () => this.status.tell("reconnecting"),
      gone: (error) => this.#startAnew(error),
      refused: (error) => this.#calls.fail(error),
    });
    this.#calls = new Calls(this.#channel, options.clock, (request, answer) => this.#discard(request, answer));
    this.#stopListening = watchPage({
      returned: () => this.#lookAround(),
      frozen: () => this.#channel.part(),
      left: () => this.#channel.leave(),
    });
    this.#channel.demand();
  }

  get isConnected(): boolean {
    return this.#channel.isReady;
  }

  get isLapsed(): boolean {
    return this.#channel.isLapsed;
  }

  get problem(): unknown {
    return this.#channel.problem;
  }

  get owner(): number | undefined {
    return this.#channel.owner;
  }

  get session(): SessionFate {
    return this.#session;
  }

  async ask(request: Request, patience?: Patience): Promise<Answer> {
    if (this.#isClosed) throw new ConnectionError("the client is closed");
    return this.#calls.ask(request, patience);
  }

  suspect(): void {
    this.#channel.suspect();
  }

  hold(lock: Lock): void {
    this.#held.set(lock.token, lock);
    const reason = this.losses.get(lock.token);
    if (reason) queueMicrotask(() => lock.lose(reason));
  }

  drop(lock: Lock): void {
    this.#held.delete(lock.token);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopListening();
    const closed = this.#channel.close();
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

  #becomeReady(how: "connected" | "resumed"): void {
    this.#calls.resend();
    // What was lost meanwhile is told, but not if the service forgot it, and only what it knows of.
    for (const lock of this.#locks) lock.verify();
    this.status.tell(how);
  }

  #hear(message: Message): void {
    if (message.type === "answer") this.#calls.answered(message);
    else if (message.type === "lost") this.#lose(message.token, lossOf(message.reason));
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

  #lookAround(): void {
    this.#channel.wake();
    for (const lock of this.#locks) lock.check();
  }

  #startAnew(error: ConnectionError): void {
    this.#session.end = error;
    this.#session = {};
    for (const lock of this.#locks) lock.lose("disconnected");
    this.#calls.forget(error);
  }

  /** A claim was carried out for somebody who has left. */
  #discard({ key = "", limit = 1 }: Request, { status, rest }: Answer): void {
    const [token = ""] = rest.split(" ");
    // A place that has come up is given up as one: a wait of an older ticket may have taken it over, with its token.
    if (status === "queued" || status === "acquired") void leavePlace(this, { key, limit });
    else if (token !== "") void giveBack(this, { key, limit }, token);
  }
}

function lossOf(word: string): LossReason {
  return word === "expired" || word === "released" ? word : "stolen";
}
