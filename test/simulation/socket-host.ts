import type { SessionOrigin } from "../../src/core/session/context.ts";
import type { Effect, Notice } from "../../src/core/session/effects.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import type { SocketState } from "../../src/core/session/socket-conversation.ts";
import { SocketSession, VANISHED } from "../../src/core/session/socket-session.ts";
import { SessionHost } from "./session-host.ts";
import type { SimulatedSocket } from "./socket.ts";

const CLIENT = { isAuthenticated: true, rights: { ...ALL_BUT_ADMIN, isAdmin: true }, resumableFrom: "192.0.2.1" };

/** The object of a session on a socket. */
export class SocketHost extends SessionHost<SocketSession> {
  #socket: SimulatedSocket | undefined;
  /** Kept with the socket while the object sleeps. */
  #attachment: SocketState | undefined;
  #savedRevision: number | undefined;
  readonly #attempts = new Map<number, SimulatedSocket>();
  #lastAttempt = 0;

  /** A client connects for the first time, or again with the secret of its session. */
  connect(socket: SimulatedSocket, secret: string | undefined): void {
    this.arrives(
      () => {
        if (secret === undefined) this.#open(socket);
        else {
          this.#lastAttempt += 1;
          const attempt = this.#lastAttempt;
          this.#attempts.set(attempt, socket);
          this.run((session) => session.resume(attempt, session.resumption.secret === secret));
        }
      },
      () => socket.refuse("unavailable"),
    );
  }

  received(socket: SimulatedSocket, bytes: Uint8Array): void {
    if (this.#socket !== socket) return;
    const { schedule, faults } = this.world;
    if (schedule.happens(faults.crash)) this.crash();
    else if (schedule.happens(faults.sleep)) this.#sleep();
    if (this.#socket === socket) this.run((session) => session.received(bytes));
  }

  closed(socket: SimulatedSocket, code: number): void {
    if (this.#socket !== socket) return;
    this.run((session) => {
      if (session.survives(code, true)) session.detach();
      else session.end();
    });
  }

  /** The directory asks whether the session still has a client. */
  sweep(): void {
    this.run((session) => session.isLive());
  }

  protected override load(origin: SessionOrigin): SocketSession {
    const session = new SocketSession(origin);
    if (this.#socket && this.#attachment) {
      session.restored(CLIENT, this.#attachment);
      this.#savedRevision = session.conversation?.revision;
    } else if (session.resumption.isOn && !session.isOver) session.loseSocket();
    return session;
  }

  protected override noticed(session: SocketSession, number: number, notice: Notice): void {
    session.notice(number, notice);
  }

  protected override handle(effect: Effect, _session: SocketSession): void {
    switch (effect.type) {
      case "send":
        this.#socket?.send(effect.line);
        break;
      case "close":
        this.#socket?.hangUp(effect.code);
        break;
      case "detached":
      case "ended":
        this.#socket = undefined;
        this.#attachment = undefined;
        break;
      case "resumed": {
        const socket = this.#attempts.get(effect.attempt);
        this.#attempts.delete(effect.attempt);
        if (effect.refusal !== undefined) socket?.refuse(effect.refusal);
        // The next event: the answer to the attempt has to arrive first.
        else if (socket) this.world.schedule.after(0, () => this.#open(socket));
      }
    }
  }

  protected override lostMemory(): void {
    const socket = this.#socket;
    this.#socket = undefined;
    this.#attachment = undefined;
    this.stored.loseSocket();
    socket?.break(VANISHED);
    for (const attempt of this.#attempts.values()) attempt.refuse("unavailable");
    this.#attempts.clear();
  }

  protected override progressed({ conversation }: SocketSession): void {
    if (!conversation || conversation.revision === this.#savedRevision) return;
    this.#savedRevision = conversation.revision;
    this.#attachment = structuredClone(conversation.state);
  }

  #open(socket: SimulatedSocket): void {
    this.run((session) => {
      this.#socket = socket;
      this.#savedRevision = undefined;
      this.stored.keepKeysWithSocket();
      session.opened(CLIENT);
    });
    if (this.#socket !== socket) socket.refuse("unavailable");
    else {
      socket.accept(this);
      if (socket.closedWith !== undefined) this.closed(socket, socket.closedWith);
    }
  }

  /** The object is evicted while nothing is under way; its socket stays. */
  #sleep(): void {
    const context = this.machine?.context;
    if (!context || context.callsInFlight > 0 || context.timers.next !== Number.POSITIVE_INFINITY) return;
    this.world.tell(`${this.name} sleeps`);
    this.machine = undefined;
    this.life += 1;
  }
}
