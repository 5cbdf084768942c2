const STEALS = "steals";
/** As many as may be under way at once: one that is sent again was under way when its socket was lost. */
const MAX_STEALS = 1_024;

/**
 * The tags of the steals that a resumable session has begun. The key knows a repeated request only as long as it holds
 * something, and a steal that it does not know would take the lock from whoever has it by now.
 */
export class BegunSteals {
  readonly #kv: SyncKvStorage;

  constructor({ kv }: DurableObjectStorage) {
    this.#kv = kv;
  }

  /** Notes a steal, durably before its key can hear of it. False if it has been noted before. */
  begin(tag: string): boolean {
    const tags = this.#kv.get<readonly string[]>(STEALS) ?? [];
    if (tags.includes(tag)) return false;
    this.#kv.put(STEALS, [...tags, tag].slice(-MAX_STEALS));
    return true;
  }
}
