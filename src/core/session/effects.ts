import type { Scope } from "../auth/scope.ts";
import type { LossReason, NoticeAnswer, NoticeKind, Offer, RoundRefusal } from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { Request } from "../protocols/wire/requests.ts";
import type { KeyCall } from "./key-calls.ts";

/** What a key tells a session about one of its requests. */
export interface Notice {
  readonly key: string;
  readonly request: string;
  readonly kind: NoticeKind;
  /** The request is a `wait` for a place taken earlier: if its client is gone, another `wait` may claim the place. */
  readonly hasPlace?: true;
  /** Why other deployments did not agree. */
  readonly refusal?: RoundRefusal;
  /** The grant itself. */
  readonly offer?: Offer;
  /** The grant was offered before: its client may have been told by an earlier life of the session. */
  readonly mayBeTold?: true;
}

/** A hold of the session that ended without the session releasing it. */
export interface Loss {
  readonly key: string;
  readonly token: string;
  readonly reason: LossReason;
}

/** Another client wants the key of this hold, whose holder asked to be told. */
export type Want = Omit<Loss, "reason">;

/** `counts`: the service in a few numbers, as one JSON object. */
export type ReportRequest = Extract<Request, { readonly type: "stats" | "query" }> | { readonly type: "counts" };

/** Events that the metrics count; codes as in the protocol's table of errors. */
export type Happening =
  | { readonly type: "answered"; readonly status: Outcome["status"] }
  | { readonly type: "protocol_error"; readonly code: number }
  | { readonly type: "auth_failed" };

/** A hold that a line tells its client of, and what happens if the lease has ended when the line is to be sent. */
export type ToldGrant = { readonly key: string; readonly token: string } & (
  | { readonly lateLine: string }
  /** A command of the session, which answers the request in another way. */
  | { readonly late: () => void }
);

/** Values that a session stores besides its keys. */
export type RecordName = "ending" | "resumption" | "steals" | "losses" | "life";

/**
 * What a session makes its host do, in this order. Everything stored by one command is durable before anything else of
 * the same command leaves the object.
 */
export type Effect =
  /** The host reports back with `keyAnswered` or `keyFailed`. */
  | { readonly type: "callKey"; readonly call: number; readonly key: string; readonly ask: KeyCall }
  /** The host reports back with `reported`. */
  | { readonly type: "report"; readonly id: string; readonly ask: ReportRequest; readonly scope: Scope | undefined }
  /** The host reports back with `authenticated`. */
  | { readonly type: "authenticate"; readonly secret: Uint8Array }
  | { readonly type: "answerNotice"; readonly notice: number; readonly answer: NoticeAnswer }
  /** The notice was not handled: its key has to repeat it. */
  | { readonly type: "failNotice"; readonly notice: number; readonly error: string }
  | { readonly type: "storeKey"; readonly key: string }
  | { readonly type: "forgetKeys"; readonly keys: readonly string[] }
  | { readonly type: "put"; readonly name: RecordName; readonly value: unknown }
  /** Sets the alarm: `by`, to this time unless it is set to an earlier one; `at`, to exactly this time. */
  | { readonly type: "wake"; readonly by?: number; readonly at?: number }
  /** `grant`: the line tells of a hold. Once the lease has ended, the host sends `lateLine` or runs `late` instead. */
  | { readonly type: "send"; readonly line: string; readonly grant?: ToldGrant }
  | { readonly type: "close"; readonly code: number }
  /** The client has proved who it is. */
  | { readonly type: "known" }
  /** The socket is lost or given up. */
  | { readonly type: "detached" }
  /** A client that wants to resume on a new socket may do so, or is refused for this reason. */
  | { readonly type: "resumed"; readonly attempt: number; readonly refusal: string | undefined }
  /** The client has left: its session is no longer listed, and its keys are being left. */
  | { readonly type: "ended" }
  /** Keys are no longer being left. If not all have been, the alarm continues. */
  | { readonly type: "left"; readonly isAll: boolean }
  /**
   * The answer to a request made without a socket, or to its poll. `gone`: the session has ended. `waits`: its client has
   * to poll. `lost`: nothing is known of the request.
   */
  | { readonly type: "reply"; readonly id: string; readonly outcome: Outcome | "gone" | "waits" | "lost" }
  /** Such a request is polled for: its answer will follow. */
  | { readonly type: "park"; readonly id: string; readonly key: string; readonly wait: "acquire" | "wait" }
  /** The answer to a request that was parked. */
  | { readonly type: "tell"; readonly id: string; readonly outcome: Outcome | "gone" }
  /** A request that the host asked to withdraw has been, or the first attempt has failed. */
  | { readonly type: "withdrawn"; readonly id: string }
  | { readonly type: "relabel"; readonly label: string }
  | { readonly type: "count"; readonly happening: Happening }
  | {
      readonly type: "log";
      readonly level: "debug" | "warn" | "error";
      readonly event: string;
      readonly fields: object;
    };

/** What a session has stored, as its host reads it. Writing is an effect. */
export interface SessionRecords {
  hasKey(key: string): boolean;
  keys(): readonly string[];
  get(name: RecordName): unknown;
}
