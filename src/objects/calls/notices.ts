import type { Answer, LossReason, NoticeKind } from "../../engine/index.ts";

/** What a key tells a session about one of its requests. */
export interface Notice {
  readonly key: string;
  readonly request: string;
  readonly kind: NoticeKind;
  /** The request is a `wait` for a place taken earlier: if its client is gone, another `wait` may claim the place. */
  readonly hasPlace?: true;
}

/** A hold of the session that ended without the session releasing it. */
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
