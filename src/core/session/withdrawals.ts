import type { SessionContext } from "./context.ts";
import { type Holdings, PLACE } from "./holdings.ts";
import { newRequest, type RequestTable, type TrackedRequest } from "./request-table.ts";

/** Pauses between retries for a key that does not answer. */
export const RETRY_PAUSES_MS = [200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000];

export interface Withdrawal {
  /** Runs when the first attempt has been answered or has failed. */
  readonly afterwards?: (() => void) | undefined;
  /** The client gives up the place of its `wait`, too: it goes even if the `wait` never reached the key. */
  readonly endsPlace?: boolean;
  /** The client did not ask for it: what it knows of stays, a hold from `enqueue` and, unless it has left, its place. */
  readonly sparesKnown?: true;
}

/** Withdraws requests at their keys. A key that cannot be reached is asked again while the object lives. */
export class Withdrawals {
  readonly #context: SessionContext;
  readonly #holdings: Holdings;
  readonly #table: RequestTable;

  constructor(context: SessionContext, holdings: Holdings, table: RequestTable) {
    this.#context = context;
    this.#holdings = holdings;
    this.#table = table;
  }

  /**
   * A request that is only known from its withdrawal. It may date from an earlier life of the session, and so may its
   * place: one that was taken in this life is another one.
   */
  ofUnknown(id: string, key: string): TrackedRequest {
    const ownsPlace = !this.#holdings.hasNewPlace(key);
    return newRequest({ id, key, type: "acquire", tag: undefined, ownsPlace });
  }

  begin(entry: TrackedRequest, withdrawal: Withdrawal = {}): void {
    this.#context.timers.stop(entry.timer);
    this.#table.withdrawing(entry);
    entry.isLeft ||= withdrawal.endsPlace === true;
    entry.next = undefined;
    this.#attempt(entry, 0, withdrawal);
  }

  #attempt(entry: TrackedRequest, attempt: number, { afterwards = () => {}, ...how }: Withdrawal): void {
    const { id, key = "" } = entry;
    const { sparesKnown } = how;
    const takesPlace = entry.isLeft && entry.ownsPlace;
    const sparesPlace = entry.isLeft ? undefined : sparesKnown;
    const options = {
      ...(takesPlace && { placeOf: this.#context.session }),
      ...(sparesKnown && { sparesKnown }),
      ...(sparesPlace && { sparesPlace }),
    };
    entry.isCancelling = true;
    const end = () => {
      entry.isCancelling = false;
      afterwards();
      for (const follow of entry.whenWithdrawn.splice(0)) follow();
      this.#table.remove(entry);
      entry.next?.();
    };
    this.#context.callKey(
      key,
      { type: "cancel", request: id, ...options },
      {
        // A place that was taken meanwhile is another one.
        mayRepeat: () => entry.ownsPlace || !takesPlace,
        answered: () => {
          // The place stands: the session has to leave it in the end.
          if (sparesPlace && entry.type === "wait") this.#holdings.add(key, PLACE);
          this.#holdings.drop(key, id);
          end();
        },
        failed: (error) => {
          this.#context.emit({ type: "log", level: "warn", event: "withdrawal_failed", fields: { error } });
          const pauseMs = RETRY_PAUSES_MS[attempt];
          if (entry.next || pauseMs === undefined) {
            end();
            return;
          }
          entry.isCancelling = false;
          const again = () => this.#attempt(entry, attempt + 1, how);
          entry.timer = this.#context.timers.at(this.#context.now + pauseMs, again);
          afterwards();
        },
      },
    );
  }
}
