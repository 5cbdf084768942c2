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
  /** Those of releases, likewise. */
  readonly #releaseTags = new Set<string>();

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

  /**
   * The id of a release, as above, if it is the first on this socket with its tag. A client that uses the tag again
   * releases twice, and has to be told so.
   */
  ofRelease(tag: string): string {
    if (this.#releaseTags.has(tag)) return this.next();
    remember(this.#releaseTags, tag);
    return this.ofTag(tag);
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
    remember(this.#spentTags, tag);
    return false;
  }
}

function remember(tags: Set<string>, tag: string): void {
  tags.add(tag);
  const [oldest = ""] = tags;
  if (tags.size > MAX_SPENT_TAGS) tags.delete(oldest);
}
