import type { Config } from "../../config.ts";
import type { Request } from "../../protocols/wire/requests.ts";
import type { ConversationHost, Standing } from "./conversation-host.ts";

/** Tags remembered per socket: enough to catch most reuse of old tags. */
const MAX_TAGS = 4_096;

const isClaim = ({ type }: Request) => type === "acquire" || type === "enqueue" || type === "wait";

/** Which requests a client that resumes its session may repeat, which it may not, and how they are identified. */
export class RepeatedRequests {
  readonly #host: Pick<ConversationHost, "session" | "now" | "beginsSteal">;
  readonly #graceMs: number;
  /** Tags of the claims on this socket, oldest first. Lost when the object sleeps. */
  readonly #claimed = new Set<string>();

  constructor(
    host: Pick<ConversationHost, "session" | "now" | "beginsSteal">,
    { resumeGraceMs }: Pick<Config, "resumeGraceMs">,
  ) {
    this.#host = host;
    this.#graceMs = resumeGraceMs;
  }

  /** The id of a request that may be repeated on another socket: it is the same there. */
  idOf({ isResumable }: Standing, tag: string | undefined): string | undefined {
    return isResumable && tag !== undefined ? `${this.#host.session}.${tag}` : undefined;
  }

  /** Whether a resumed client may still repeat this request. It has the grace period to do so. */
  mayComeAgain({ isResumed, openedAt }: Standing, id: string): boolean {
    return isResumed && this.#host.now() < openedAt + this.#graceMs && id.startsWith(`${this.#host.session}.`);
  }

  /**
   * Whether the tag was already used on this socket by a claim that has been answered. The key would take the new claim
   * for the old one and answer with the same hold, so two requests would believe they hold it.
   */
  isTagSpent({ isResumable }: Standing, tag: string | undefined, request: Request): boolean {
    if (!isResumable || tag === undefined || !isClaim(request)) return false;
    if (this.#claimed.has(tag)) return true;
    this.#claimed.add(tag);
    const [oldest = ""] = this.#claimed;
    if (this.#claimed.size > MAX_TAGS) this.#claimed.delete(oldest);
    return false;
  }

  /** Whether the request is a steal that was begun before, on another socket. */
  isBegunSteal({ isResumable }: Standing, tag: string | undefined, request: Request): boolean {
    const isSteal = request.type === "acquire" && request.steals === true;
    return isSteal && isResumable && tag !== undefined && !this.#host.beginsSteal(tag);
  }
}
