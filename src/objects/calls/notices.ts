import type { Answer, LossReason, NoticeKind } from "../../engine/index.ts";

/** What a key tells a session about one of its requests. */
export interface Notice {
  readonly key: string;
  readonly request: string;
  readonly kind: NoticeKind;
  /** The request is a `wait` at a place taken before: if nobody is there to hear, another one may come for it. */
  readonly hasPlace?: true;
}

/** A hold of the session has ended without its doing. */
export interface Loss {
  readonly key: string;
  readonly token: string;
  readonly reason: LossReason;
}

/** The part of a session that keys and the directory talk to. */
export interface Listener {
  /** May be called again with the same notice; the answer is then the same. */
  deliver(notice: Notice): Promise<Answer>;
  lose(loss: Loss): Promise<void>;
  /** Whether the session still has, or may still get, a client. */
  isLive(): Promise<boolean>;
}
