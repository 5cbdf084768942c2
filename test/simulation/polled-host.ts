import type { Outcome } from "../../src/core/protocols/statuses.ts";
import type { SessionOrigin } from "../../src/core/session/context.ts";
import type { Effect, Notice } from "../../src/core/session/effects.ts";
import type { KeyRequest } from "../../src/core/session/key-calls.ts";
import { type Parked, PolledSession } from "../../src/core/session/polled-session.ts";
import { SessionHost } from "./session-host.ts";

/** What a client without a socket hears of a request. `failed`: nothing is known of it. */
export type Reply = Outcome | "gone" | "waits" | "lost" | "parked" | "failed";

/** The object of a session without a socket. Polls survive its sleep, and break when it loses its memory. */
export class PolledHost extends SessionHost<PolledSession> {
  readonly #replies = new Map<string, (reply: Reply) => void>();
  readonly #polls = new Map<string, { parked: Parked; readonly tell: (reply: Reply) => void }>();

  open(opened: (isOpen: boolean) => void): void {
    this.arrives(
      () => {
        this.run((session) => session.open("192.0.2.1", undefined));
        opened(this.machine !== undefined);
      },
      () => opened(false),
    );
  }

  request(id: string, request: KeyRequest, reply: (reply: Reply) => void): void {
    this.#call(id, (session) => session.begin(id, request), reply);
  }

  /** Polls for a request that waits. */
  poll(id: string, reply: (reply: Reply) => void): void {
    this.#call(id, (session) => session.poll(id), reply);
  }

  end(ended: () => void): void {
    this.arrives(() => {
      this.run((session) => {
        if (session.saw(undefined)) session.end();
      });
      ended();
    }, ended);
  }

  /** The answer has reached the client, or the client has hung up. */
  pollClosed(id: string, isDelivered: boolean): void {
    const poll = this.#polls.get(id);
    if (!poll) return;
    this.#polls.delete(id);
    this.run((session) => session.pollClosed(poll.parked, isDelivered));
  }

  /** The answer to a request has not reached its client. `hasLeft`: it has hung up. */
  withdraw(id: string, key: string, how: { readonly hasLeft: boolean }): void {
    this.run((session) => session.withdraw(id, key, how));
  }

  protected override load(origin: SessionOrigin): PolledSession {
    return new PolledSession(
      origin,
      [...this.#polls.values()].map(({ parked }) => parked),
    );
  }

  protected override noticed(session: PolledSession, number: number, notice: Notice): void {
    session.notice(number, notice, true);
  }

  protected override handle(effect: Effect, _session: PolledSession): void {
    switch (effect.type) {
      case "reply":
        this.#take(effect.id)?.(effect.outcome);
        break;
      case "park": {
        const reply = this.#take(effect.id);
        const { id, key, wait } = effect;
        if (reply) this.#polls.set(id, { parked: { id, key, type: wait, told: "nothing" }, tell: reply });
        reply?.("parked");
        break;
      }
      case "tell": {
        const poll = this.#polls.get(effect.id);
        if (!poll) break;
        const told = effect.outcome !== "gone" && effect.outcome.token !== undefined ? "grant" : "refusal";
        if (effect.outcome !== "gone") poll.parked = { ...poll.parked, told };
        poll.tell(effect.outcome);
      }
    }
  }

  protected override lostMemory(): void {
    // It does not know which waits it has told that they are over: their places stay, in case it has not.
    this.isInDoubt = true;
    const waiting = [...this.#replies.values(), ...[...this.#polls.values()].map(({ tell }) => tell)];
    this.#replies.clear();
    this.#polls.clear();
    for (const reply of waiting) reply("failed");
  }

  #call(id: string, command: (session: PolledSession) => void, reply: (reply: Reply) => void): void {
    this.arrives(
      () => {
        this.#replies.set(id, reply);
        this.run((session) => {
          if (session.saw(undefined)) command(session);
          else session.context.emit({ type: "reply", id, outcome: "gone" });
        });
      },
      () => reply("failed"),
    );
  }

  #take(id: string): ((reply: Reply) => void) | undefined {
    const reply = this.#replies.get(id);
    this.#replies.delete(id);
    return reply;
  }
}
