import type { EndReason, Observation, ReportedHold } from "../engine/index.ts";
import type { Labels } from "./directories.ts";
import { labelOfTag } from "./tag-label.ts";

/** What a page shows of one key, and what its object may cost in memory: some fifty kilobytes. */
export const MOST_GRANTS = 200;

/** A grant, from the hand-over of its token. */
export interface PastGrant {
  readonly fence: string;
  readonly session: string;
  /** What its session was called when somebody last looked, if anybody did. */
  readonly label?: string;
  readonly grantedAt: number;
  /** Undefined where it is not known any more. */
  readonly waitedMs: number | undefined;
  /** Undefined while the hold stands. */
  readonly end: { readonly reason: EndReason; readonly heldMs: number } | undefined;
}

/** A history as it stands at `now`, by the key's clock. */
export interface HistoryView {
  readonly now: number;
  /** In the order of their hand-over. */
  readonly grants: readonly PastGrant[];
}

/**
 * The newest grants of one key. They are kept in memory only: a row for them would double what a grant costs, and
 * nothing is ever decided by them. After an eviction only the holds that still stand are known.
 */
export class History {
  /** By fence, in the order of their hand-over. */
  readonly #grants = new Map<string, PastGrant>();

  at(now: number): HistoryView {
    return { now, grants: [...this.#grants.values()] };
  }

  /** Begins with the holds that stand. How long they waited was not stored, unless they did not wait at all. */
  recall(holds: readonly ReportedHold[]): void {
    for (const { since, isImmediate, ...hold } of holds) {
      this.#add({ ...nameOf(hold), grantedAt: since, waitedMs: isImmediate ? 0 : undefined, end: undefined });
    }
  }

  note(observations: readonly Observation[]): void {
    for (const observation of observations) {
      if (observation.type === "granted") {
        const { at, waitMs } = observation;
        this.#add({ ...nameOf(observation), grantedAt: at, waitedMs: waitMs, end: undefined });
      } else if (observation.type === "ended" && observation.holdMs !== undefined) {
        this.#change(observation.fence, { end: { reason: observation.reason, heldMs: observation.holdMs } });
      }
    }
  }

  remember(labels: Labels): void {
    for (const { fence, session } of this.#grants.values()) {
      const label = labels[session];
      if (label !== undefined) this.#change(fence, { label });
    }
  }

  /** The key is forgotten, and its history with it. */
  forget(): void {
    this.#grants.clear();
  }

  #add(grant: PastGrant): void {
    this.#grants.set(grant.fence, grant);
    if (this.#grants.size <= MOST_GRANTS) return;
    const [oldest = ""] = this.#grants.keys();
    this.#grants.delete(oldest);
  }

  #change(fence: string, changes: Partial<PastGrant>): void {
    const grant = this.#grants.get(fence);
    if (grant) this.#grants.set(fence, { ...grant, ...changes });
  }
}

/** Whose grant it is. A holder without a session is labelled by its tag; labels of sessions are learnt later. */
function nameOf({ fence, session, tag }: Pick<ReportedHold, "fence" | "session" | "tag">) {
  const label = labelOfTag(tag);
  return { fence, session, ...(label !== undefined && { label }) };
}

/** Whether the history has still to be told some of these labels. */
export function hasNewLabels({ grants }: HistoryView, labels: Labels): boolean {
  return grants.some(({ session, label }) => (labels[session] ?? label) !== label);
}
