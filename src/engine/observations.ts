/** Why a slot became free, as statistics tell it. `gone`: it was withdrawn, or its client never picked it up. */
export type EndReason = "released" | "expired" | "disconnect" | "gone" | "stolen";

/**
 * What happened at a key, for statistics and its history only. A grant counts once, when its token is handed to the
 * client, `at` that moment: `waitMs` then is the time since its request reached the key. Every slot that becomes free
 * counts as ended; `holdMs`, from the hand-over to the end, is undefined for one whose token nobody was given. So each
 * grant has one end at most, which bears its fence.
 */
export type Observation =
  | {
      readonly type: "granted";
      readonly how: "immediate" | "queued";
      readonly session: string;
      readonly fence: string;
      /** The beginning of the tag of a holder without a session. */
      readonly tag?: string;
      readonly at: number;
      readonly waitMs: number;
    }
  | { readonly type: "ended"; readonly fence: string; readonly reason: EndReason; readonly holdMs: number | undefined }
  | { readonly type: "renewed"; readonly result: "ok" | "error" }
  /** A client is told that its wait was in vain. */
  | { readonly type: "timeout" }
  /** A waiter got a slot whose lease had ended `ms` before. */
  | { readonly type: "handed_over_late"; readonly ms: number }
  | { readonly type: "notice_repeated" };
