import type { Request } from "../../protocols/wire/requests.ts";
import type { SessionContext } from "../context.ts";

/** Tags remembered per socket: enough to catch most reuse of old tags. */
const MAX_SPENT_TAGS = 4_096;

/** How the requests on one socket are identified towards keys. */
export class RequestNames {
  readonly #session: string;
  /** Ids are unique across restarts of the object: each start has its own prefix. */
  readonly #prefix: string;
  #lastId = 0;
  /** Tags of the claims on this socket, oldest first. Lost when the object sleeps. */
  readonly #spentTags = new Set<string>();

  constructor({ session, random }: SessionContext) {
    this.#session = session;
    this.#prefix = random().slice(0, 16);
  }

  next(): string {
    this.#lastId += 1;
    return `${this.#prefix}.${this.#lastId}`;
  }

  /** The id of a request that may be repeated on another socket: it is the same there. */
  ofTag(tag: string): string {
    return `${this.#session}.${tag}`;
  }

  isOfTag(id: string): boolean {
    return id.startsWith(`${this.#session}.`);
  }

  /**
   * Whether the tag was already used on this socket by a claim that has been answered. The key would take the new claim
   * for the old one and answer with the same hold, so two requests would believe they hold it.
   */
  isSpent(tag: string, { type }: Pick<Request, "type">): boolean {
    if (type !== "acquire" && type !== "enqueue" && type !== "wait") return false;
    if (this.#spentTags.has(tag)) return true;
    this.#spentTags.add(tag);
    const [oldest = ""] = this.#spentTags;
    if (this.#spentTags.size > MAX_SPENT_TAGS) this.#spentTags.delete(oldest);
    return false;
  }
}
