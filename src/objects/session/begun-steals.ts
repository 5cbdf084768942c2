const STEALS = "steals";
/** As many as may be in flight at once: a repeated steal was in flight when its socket was lost. */
const MAX_STEALS = 1_024;

/**
 * The tags of the steals that a resumable session has begun. A key recognises a repeated request only while it still
 * holds something for it; a steal it does not recognise would take the lock from its current holder.
 */
export class BegunSteals {
  readonly #kv: SyncKvStorage;

  constructor({ kv }: DurableObjectStorage) {
    this.#kv = kv;
  }

  /** Records a steal durably before its key receives it. False if it was already recorded. */
  begin(tag: string): boolean {
    const tags = this.#kv.get<readonly string[]>(STEALS) ?? [];
    if (tags.includes(tag)) return false;
    this.#kv.put(STEALS, [...tags, tag].slice(-MAX_STEALS));
    return true;
  }
}
