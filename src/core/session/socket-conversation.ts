import type { Principal } from "../auth/principal.ts";
import type { SessionContext } from "./context.ts";
import type { Loss } from "./effects.ts";
import type { GodistlockState } from "./godistlock/protocol.ts";
import type { RequestOwner } from "./request-owner.ts";
import type { Requests } from "./requests.ts";
import type { Resumption } from "./resumption.ts";
import type { ConversationState } from "./wire/protocol.ts";

/** What a conversation of either protocol leaves with its socket during sleep. */
export type SocketState = ConversationState | GodistlockState;

/** The session that a conversation belongs to. */
export interface ConversationHost {
  readonly context: SessionContext;
  readonly requests: Requests;
  readonly resumption: Resumption;
  /** The client has authenticated. */
  known(): void;
  /** The conversation has ended: the connection is closed with this code. */
  close(code: number): void;
  /** The address of a client that may resume its session; undefined if this one cannot. */
  readonly resumableFrom: string | undefined;
}

/** What a client says on its socket and is told there, whatever protocol it speaks. */
export interface SocketConversation extends RequestOwner {
  /** The client has authenticated, if authentication is required. */
  readonly isKnown: boolean;
  /** Changes whenever `state` changes. */
  readonly revision: number;
  readonly state: SocketState;
  /** Approximate size of the state to keep during sleep, in bytes. */
  readonly weight: number;
  /** Bytes received but not yet processed. */
  readonly unconsumed: number;
  /** Bytes of complete requests that wait for their turn. */
  readonly backlogBytes: number;
  /** When the client must have sent more; Infinity while nothing is expected of it. */
  readonly readDeadline: number;
  receive(bytes: Uint8Array): void;
  /** The client will send nothing more: answers what can be answered immediately, then ends the conversation. */
  endOfInput(): void;
  /** Checks the read deadline. */
  tick(): void;
  lose(loss: Loss): void;
  /** Sends a line that belongs to no request. */
  push(line: string): void;
  /** The connection is gone: nothing more is sent. */
  hangUp(): void;
  authenticated(principal: Principal | undefined): void;
}
