/** Between the listeners, which own sockets, and the host, which owns sessions. */
import type { ClientEntry, Credential } from "../service.ts";

/** Why a client is not let in. */
export type ArrivalRefusal =
  | "max_connections"
  | "max_connections_per_ip"
  | "session_gone"
  | "session_in_use"
  | "unavailable";

/**
 * The way to one client. The host calls it only with what may leave: every change that a line depends on is durable by
 * then. None of these throws, also after the connection has ended.
 */
export interface Carrier {
  /** Sends lines, each with its line break. On a WebSocket each is a text frame, except that a bridge gets all in one. */
  send(lines: readonly string[]): void;
  /** Tells a bridge how much input has been consumed: a binary frame. Ignored on TCP. */
  acknowledge(frame: Uint8Array): void;
  /** Closes the connection once everything sent so far has been written. On TCP the code is not sent. */
  close(code: number): void;
  /** Stops reading from the client until `resume`. A carrier may have reasons of its own not to read. */
  pause(): void;
  resume(): void;
}

/** One client's session as its connection sees it. */
export interface Connection {
  /** The client sent bytes. They may be kept: the caller must not reuse the buffer. */
  received(bytes: Uint8Array): void;
  /** The client gave a sign of life that carries nothing. */
  heard(): void;
  /** The client will send nothing more, but still reads. */
  inputEnded(): void;
  /** The client sent a message longer than allowed; the session closes the connection. */
  sentTooMuch(): void;
  /** The connection has ended; 1006 if without a close frame. Nothing is called after this. */
  closed(code: number): void;
}

/** A client that was let in, and whose connection is about to be open. */
export interface Admission {
  /** The connection is open. Must follow within a second, or the session counts as lost. */
  attach(carrier: Carrier): Connection;
  /** The client vanished before its connection was open. */
  abandon(): void;
}

/** Lets clients in. */
export interface Clients {
  /** A new session, or the reason why there is none. */
  admit(entry: ClientEntry): Admission | ArrivalRefusal;
  /** The session of an earlier connection. May take seconds: the old client, if it seems to be there, is asked first. */
  resume(entry: ClientEntry, credential: Credential): Promise<Admission | ArrivalRefusal>;
}

/** How the relay of another deployment arrived. */
export interface PeerArrival {
  readonly address: string;
  /** It has shown the group's token. */
  readonly isKnown: boolean;
  /** As in `ClientEntry`. */
  readonly hasWindow: boolean;
}

/** Lets the relays of other deployments in. */
export interface Peers {
  admit(arrival: PeerArrival): Admission | ArrivalRefusal;
}
