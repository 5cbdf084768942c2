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

type Granted = Extract<Observation, { readonly type: "granted" }>;
type Ended = Extract<Observation, { readonly type: "ended" }>;
type LabelOf = (session: string) => string | undefined;

/**
 * The newest grants of one key. They are kept in memory only: storing them would double the cost of a grant, and
 * nothing is ever decided by them. After an eviction only current holds are known.
 */
export class History {
  /** Oldest first. */
  #grants: { -readonly [Field in keyof PastGrant]: PastGrant[Field] }[] = [];

  at(now: number): HistoryView {
    return { now, grants: this.#grants.map((grant) => ({ ...grant })) };
  }

  /** Adds the current holds. Their waiting time was not stored, unless they did not wait at all. */
  recall(holds: readonly ReportedHold[]): readonly PastGrant[] {
    return holds
      .filter(({ fence }) => !this.#find(fence))
      .map(({ since, isImmediate, ...hold }) =>
        this.#add({ ...nameOf(hold), grantedAt: since, waitedMs: isImmediate ? 0 : undefined, end: undefined }),
      );
  }

  note(observations: readonly Observation[]): void {
    for (const observation of observations) {
      if (observation.type === "granted") this.granted(observation);
      else if (observation.type === "ended") this.ended(observation);
    }
  }

  /** `labelOf` gives the label of a session, where the host knows it. */
  granted(observation: Granted, labelOf?: LabelOf): PastGrant {
    const { fence, session, tag, at, waitMs } = observation;
    const label = labelOf?.(session) ?? labelOfTag(tag);
    const grant = { fence, session, grantedAt: at, waitedMs: waitMs, end: undefined };
    return this.#add(label === undefined ? grant : { ...grant, label });
  }

  ended({ fence, reason, holdMs }: Ended): void {
    const grant = holdMs === undefined ? undefined : this.#find(fence);
    if (grant && holdMs !== undefined) grant.end = { reason, heldMs: holdMs };
  }

  remember(labels: Labels): void {
    for (const grant of this.#grants) {
      const label = labels[grant.session];
      if (label !== undefined) grant.label = label;
    }
  }

  forget(grant: PastGrant): void {
    const at = this.#grants.indexOf(grant);
    if (at === 0) this.#grants.shift();
    else if (at > 0) this.#grants.splice(at, 1);
  }

  clear(): void {
    this.#grants = [];
  }

  /** Fences rise, so a new grant nearly always comes last. */
  #add(grant: PastGrant): PastGrant {
    let at = this.#grants.length;
    while (at > 0 && (this.#grants[at - 1] as PastGrant).fence > grant.fence) at -= 1;
    if (this.#grants[at - 1]?.fence === grant.fence) this.#grants[at - 1] = grant;
    // Most keys have one grant only: room for more would be most of what it takes.
    else if (this.#grants.length === 0) this.#grants = [grant];
    else this.#grants.splice(at, 0, grant);
    if (this.#grants.length > MAX_GRANTS) this.#grants.shift();
    return grant;
  }

  /** The grant in question is nearly always the newest. */
  #find(fence: string) {
    return this.#grants.findLast((grant) => grant.fence === fence);
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
