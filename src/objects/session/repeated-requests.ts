import type { Config } from "../../config.ts";
import type { Request } from "../../protocols/wire/requests.ts";
import type { ConversationHost, Standing } from "./conversation-host.ts";

/** So many tags are remembered on one socket: of a client that goes on using old ones, most are found out. */
const MAX_TAGS = 4_096;

const isClaim = ({ type }: Request) => type === "acquire" || type === "enqueue" || type === "wait";

/** What a client that resumes its session may send again, by which name it is known, and what it may not. */
export class RepeatedRequests {
  readonly #host: Pick<ConversationHost, "session" | "now" | "beginsSteal">;
  readonly #graceMs: number;
  /** Tags of the claims on this socket, oldest first. A sleep forgets them. */
  readonly #claimed = new Set<string>();

  constructor(
    host: Pick<ConversationHost, "session" | "now" | "beginsSteal">,
    { resumeGraceMs }: Pick<Config, "resumeGraceMs">,
  ) {
    this.#host = host;
    this.#graceMs = resumeGraceMs;
  }

  /** The id of a request that may be sent again on another socket: the same there. */
  idOf({ isResumable }: Standing, tag: string | undefined): string | undefined {
    return isResumable && tag !== undefined ? `${this.#host.session}.${tag}` : undefined;
  }

  /** A client that has resumed sends again what it has not heard the end of; until it has had the time to, it is asked for. */
  mayComeAgain({ isResumed, openedAt }: Standing, id: string): boolean {
    return isResumed && this.#host.now() < openedAt + this.#graceMs && id.startsWith(`${this.#host.session}.`);
  }

  /**
   * Whether the tag of a claim has been another's on this socket, which has been answered. To its key it would be the same
   * claim, and get the same hold: two would believe in it.
   */
  isTagSpent({ isResumable }: Standing, tag: string | undefined, request: Request): boolean {
    if (!isResumable || tag === undefined || !isClaim(request)) return false;
    if (this.#claimed.has(tag)) return true;
    this.#claimed.add(tag);
    const [oldest = ""] = this.#claimed;
    if (this.#claimed.size > MAX_TAGS) this.#claimed.delete(oldest);
    return false;
  }

  /** Whether the request is a steal that has begun before, on another socket. */
  isBegunSteal({ isResumable }: Standing, tag: string | undefined, request: Request): boolean {
    const isSteal = request.type === "acquire" && request.steals === true;
    return isSteal && isResumable && tag !== undefined && !this.#host.beginsSteal(tag);
  }
}
