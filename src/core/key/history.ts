import type { EndReason, Observation, ReportedHold } from "../engine/index.ts";
import { labelOfTag } from "./tag-label.ts";

/** Labels by session; sessions without a label are left out. */
export type Labels = Readonly<Record<string, string>>;

/** Limits what a page shows of one key and what the history costs in memory: about fifty kilobytes. */
export const MAX_GRANTS = 200;

/** A grant, from the moment its token was handed over. */
export interface PastGrant {
  readonly fence: string;
  readonly session: string;
  /** The session's label at the grant, or when the history was last viewed. */
  readonly label?: string;
  readonly grantedAt: number;
  /** Undefined if no longer known. */
  readonly waitedMs: number | undefined;
  /** Undefined while the key is still held. */
  readonly end: { readonly reason: EndReason; readonly heldMs: number } | undefined;
}

/** The history at `now`, by the key's clock. */
export interface HistoryView {
  readonly now: number;
  /** Oldest first. */
  readonly grants: readonly PastGrant[];
}

/**
 * The newest grants of one key. They are kept in memory only: storing them would double the cost of a grant, and
 * nothing is ever decided by them. After an eviction only current holds are known.
 */
export class History {
  /** Oldest first. */
  readonly #grants: PastGrant[] = [];

  at(now: number): HistoryView {
    return { now, grants: [...this.#grants] };
  }

  /** Number of grants. */
  get size(): number {
    return this.#grants.length;
  }

  /** Starts with the current holds. Their waiting time was not stored, unless they did not wait at all. */
  recall(holds: readonly ReportedHold[]): void {
    for (const { since, isImmediate, ...hold } of holds) {
      this.#add({ ...nameOf(hold), grantedAt: since, waitedMs: isImmediate ? 0 : undefined, end: undefined });
    }
  }

  /** Adds what has happened. `labelOf` gives the label of a session, where the host knows it. */
  note(observations: readonly Observation[], labelOf: (session: string) => string | undefined = () => undefined): void {
    for (const observation of observations) {
      if (observation.type === "granted") {
        const { at, waitMs, session } = observation;
        const label = labelOf(session);
        const name = { ...nameOf(observation), ...(label !== undefined && { label }) };
        this.#add({ ...name, grantedAt: at, waitedMs: waitMs, end: undefined });
      } else if (observation.type === "ended" && observation.holdMs !== undefined) {
        this.#change(observation.fence, { end: { reason: observation.reason, heldMs: observation.holdMs } });
      }
    }
  }

  remember(labels: Labels): void {
    for (const { fence, session } of [...this.#grants]) {
      const label = labels[session];
      if (label !== undefined) this.#change(fence, { label });
    }
  }

  forget(): void {
    this.#grants.length = 0;
  }

  #add(grant: PastGrant): void {
    // Fences rise, so one that is known already is found at once.
    let at = this.#grants.length;
    while (at > 0 && (this.#grants[at - 1] as PastGrant).fence > grant.fence) at -= 1;
    if (this.#grants[at - 1]?.fence === grant.fence) this.#grants[at - 1] = grant;
    else this.#grants.splice(at, 0, grant);
    if (this.#grants.length > MAX_GRANTS) this.#grants.shift();
  }

  #change(fence: string, changes: Partial<PastGrant>): void {
    const index = this.#indexOf(fence);
    const grant = this.#grants[index];
    if (grant) this.#grants[index] = { ...grant, ...changes };
  }

  /** The grant in question is nearly always the newest. */
  #indexOf(fence: string): number {
    return this.#grants.findLastIndex((grant) => grant.fence === fence);
  }
}

/** Identifies the holder. A holder without a session is labelled by its tag; labels of sessions are added later. */
function nameOf({ fence, session, tag }: Pick<ReportedHold, "fence" | "session" | "tag">) {
  const label = labelOfTag(tag);
  return { fence, session, ...(label !== undefined && { label }) };
}

/** Whether some of these labels are missing from the history. */
export function hasNewLabels({ grants }: HistoryView, labels: Labels): boolean {
  return grants.some(({ session, label }) => (labels[session] ?? label) !== label);
}
