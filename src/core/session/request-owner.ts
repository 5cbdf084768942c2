import type { NoticeAnswer } from "../engine/index.ts";
import type { Outcome } from "../protocols/statuses.ts";
import type { Notice } from "./effects.ts";
import type { TrackedRequest } from "./request-table.ts";

/** The client's side: whatever protocol it speaks, it is told what becomes of its requests. */
export interface RequestOwner {
  answered(entry: TrackedRequest, outcome: Outcome): void;
  /** The request waits at its key. */
  waits(entry: TrackedRequest): void;
  /** The request ends without an answer: it would have to wait and may not, or it is withdrawn, or its session gone. */
  dropped(entry: TrackedRequest): void;
  /** The answer to a notice about a request that is not known, or no longer. */
  unknown(notice: Notice): NoticeAnswer;
  /** The client may have made this request before, on another socket. */
  mayRepeat?(request: string): boolean;
}
