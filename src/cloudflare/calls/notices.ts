import type { NoticeAnswer } from "../../core/engine/index.ts";
import type { Loss, Notice, Want } from "../../core/session/effects.ts";

/** The part of a session that keys and the directory talk to. */
export interface Listener {
  /** May be called again with the same notice; the answer is then the same. */
  deliver(notice: Notice): Promise<{ readonly answer: NoticeAnswer }>;
  lose(loss: Loss): Promise<void>;
  want(want: Want): Promise<void>;
  /** Whether the session still has, or may still get, a client. */
  isLive(): Promise<{ readonly isLive: boolean }>;
}
