import type { Alarm } from "../awake/wake-up.ts";
import type { SessionRows } from "../session-common/session-rows.ts";

/** The platform's answers to keep-alives. */
export type AutoResponse = Pick<DurableObjectState, "setWebSocketAutoResponse" | "getWebSocketAutoResponse">;

/** What a session's host needs of the object it lives in: the only session there, or one of several. */
export interface HostPlace {
  readonly session: string;
  readonly rows: SessionRows;
  readonly wakeUp: Alarm;
  /** Other sessions live in the same object. */
  readonly isShared: boolean;
  /** Absent if the platform must not answer for this session: it would for all others in the object, too. */
  readonly autoResponse: AutoResponse | undefined;
  /** The open sockets of this session, more than one while a client resumes. */
  sockets(): WebSocket[];
  accept(socket: WebSocket): void;
  waitUntil(task: Promise<unknown>): void;
  /** Resolves when everything stored is durable and all answers have left. */
  settled(): Promise<void>;
  /** Ends this host, and closes the object's files if it was the last. The next call or message starts another. */
  rest(): void;
  /** Drops the object with all its connections, unless other sessions need it. */
  abandon(): Promise<void>;
}
