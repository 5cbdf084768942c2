import type { SessionContext } from "../context.ts";
import type { Requests } from "../requests.ts";
import type { Resumption } from "../resumption.ts";

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
