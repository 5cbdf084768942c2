import {
  type IncomingCarrier,
  IncomingConnection,
  type IncomingHost,
  type IncomingSnapshot,
} from "../../core/group/incoming-connection.ts";
import { closeSocket } from "../calls/closing.ts";

const MAX_MESSAGE_BYTES = 1_048_576;
/** What an attachment has room for. A longer line holds a token; until it is complete, the object does not sleep. */
const MAX_PARTIAL_BYTES = 1_024;
const NOTHING = new Uint8Array(0);

const encoder = new TextEncoder();

/** The WebSocket of another deployment. What a sleep of the object must not lose is attached to the socket. */
export class IncomingSocket {
  readonly #connection: IncomingConnection;

  private constructor(socket: WebSocket, host: IncomingHost, snapshot: IncomingSnapshot) {
    this.#connection = new IncomingConnection(host, carrierOf(socket), snapshot);
  }

  static open(socket: WebSocket, host: IncomingHost, entry: { isKnown: boolean; hasWindow: boolean }): IncomingSocket {
    const { isKnown, hasWindow } = entry;
    const snapshot: IncomingSnapshot = { state: { phase: isKnown ? "known" : "unknown" }, partial: NOTHING, hasWindow };
    socket.serializeAttachment(snapshot);
    return new IncomingSocket(socket, host, snapshot);
  }

  /** A connection that has outlived a sleep of the object. */
  static restore(socket: WebSocket, host: IncomingHost): IncomingSocket {
    return new IncomingSocket(socket, host, socket.deserializeAttachment() as IncomingSnapshot);
  }

  /** The peer at the other end of such a socket, if it has introduced itself. */
  static peerOn(socket: WebSocket): string | undefined {
    const { state } = socket.deserializeAttachment() as IncomingSnapshot;
    return state.phase === "introduced" ? state.id : undefined;
  }

  get peer(): string | undefined {
    return this.#connection.peer;
  }

  received(message: string | ArrayBuffer): void {
    if (message === "") return;
    const bytes = typeof message === "string" ? encoder.encode(message) : new Uint8Array(message);
    if (bytes.length > MAX_MESSAGE_BYTES) this.#connection.sentTooMuch();
    else if (bytes.length === 0) this.#connection.inputEnded();
    else this.#connection.received(bytes);
  }

  /** The connection has ended. */
  closed(): void {
    this.#connection.closed();
  }
}

function carrierOf(socket: WebSocket): IncomingCarrier {
  const send = (message: string | Uint8Array) => {
    try {
      socket.send(message);
    } catch {
      // It has ended, and an event tells so.
    }
  };
  return {
    send,
    acknowledge: send,
    close: (code) => closeSocket(socket, code),
    save: ({ partial, ...snapshot }) => {
      const kept = partial.length <= MAX_PARTIAL_BYTES ? partial : NOTHING;
      socket.serializeAttachment({ ...snapshot, partial: kept } satisfies IncomingSnapshot);
    },
  };
}
