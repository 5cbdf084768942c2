import { wireReply } from "../../protocols/statuses.ts";
import type { Request } from "../../protocols/wire/requests.ts";
import type { Loss } from "../calls/notices.ts";
import { type ConversationHost, FAILURES, type Standing } from "./conversation-host.ts";
import type { Replies } from "./replies.ts";

const TYPES = ["auth", "ping", "watch", "resume"] as const;

/** A request that is answered immediately, without a key. */
export type ImmediateRequest = Extract<Request, { readonly type: (typeof TYPES)[number] }>;

export function isImmediate(request: Request): request is ImmediateRequest {
  return TYPES.some((type) => type === request.type);
}

/** Answers the request. Returns what it changes in the client's standing, if anything. */
export function answerImmediately(
  tag: string | undefined,
  { type }: ImmediateRequest,
  { voice, host, standing }: { voice: Replies; host: ConversationHost; standing: Standing },
): Partial<Standing> | undefined {
  switch (type) {
    case "auth":
      voice.refuse(tag, FAILURES.unknown);
      return undefined;
    case "ping":
      voice.ok(tag);
      return undefined;
    case "watch": {
      voice.ok(tag);
      if (standing.isWatching) return undefined;
      if (standing.isResumed) for (const loss of host.recentLosses()) tellLoss(voice, loss);
      return { isWatching: true };
    }
    case "resume": {
      const given = host.makeResumable();
      voice.say(tag, given ? wireReply("ok", given.credential, given.graceSeconds) : wireReply("error"));
      return given && { isResumable: true };
    }
  }
}

export function tellLoss(voice: Replies, { key, token, reason }: Loss): void {
  voice.say(undefined, `! lost ${key} ${token} ${reason}`);
}
