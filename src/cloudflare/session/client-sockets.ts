import type { ClientEntry } from "../../service.ts";
import type { SessionStore } from "../session-common/session-store.ts";
import { ANSWERS_PER_MS, PacedInput } from "./paced-input.ts";
import { SessionSocket } from "./session-socket.ts";

/** The socket of a session's client, and the one before it was lost. */
export class ClientSockets {
  readonly #store: SessionStore;
  readonly #received: (bytes: Uint8Array) => void;
  #current: SessionSocket | undefined;
  /** The session's newest socket, even after it is lost. */
  #last: SessionSocket | undefined;
  #input: PacedInput | undefined;
  #entry: ClientEntry | undefined;

  /** `received` processes a piece of input; an empty one is the end of input. */
  constructor(store: SessionStore, received: (bytes: Uint8Array) => void) {
    this.#store = store;
    this.#received = received;
  }

  get current(): SessionSocket | undefined {
    return this.#current;
  }

  /** How the client connected. */
  get entry(): ClientEntry | undefined {
    return this.#entry;
  }

  listenTo(socket: SessionSocket): void {
    this.#store.useAttachment(socket, socket.keys);
    this.#current = socket;
    this.#last = socket;
    this.#entry = socket.entry;
    const pace = socket.entry.hasWindow ? ANSWERS_PER_MS.carrier : ANSWERS_PER_MS.client;
    this.#input = new PacedInput((piece) => this.#hear(socket, piece), pace);
  }

  isCurrent(socket: WebSocket): boolean {
    return this.#current?.isOn(socket) === true;
  }

  /** Processes input of the current socket, after what came before it. */
  take(bytes: Uint8Array): Promise<void> | undefined {
    return this.#input?.take(bytes);
  }

  /** The socket is closed: what it has sent and has not been processed is dropped. */
  closed(socket: WebSocket): void {
    if (this.isCurrent(socket)) this.#input?.forget();
  }

  drop(): void {
    this.#current?.end();
    this.#current = undefined;
  }

  /** Whether this is an older socket of the session, not its current or last one. */
  isReplaced(socket: WebSocket): boolean {
    // When a close wakes the object, its socket is no longer among the open ones: only the event has it.
    this.#entry ??= SessionSocket.entryOf(socket);
    if (this.#last) return !this.#last.isOn(socket);
    this.#store.useAttachment(undefined, SessionSocket.keysOf(socket));
    return SessionSocket.isClosed(socket);
  }

  /** Whether the client of a socket whose close has woken the object had authenticated as far as the service requires. */
  wasKnown(socket: WebSocket): boolean {
    return SessionSocket.phaseOf(socket, this.#store) !== "handshake";
  }

  /** Returns the number of answers sent synchronously. */
  #hear(socket: SessionSocket, bytes: Uint8Array): number {
    if (this.#current !== socket) return 0;
    const { said } = socket;
    socket.heard(bytes.length);
    this.#received(bytes);
    return socket.said - said;
  }
}
