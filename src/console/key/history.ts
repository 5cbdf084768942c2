import type { KeyReport } from "../../client/report.ts";

/** A grant of the key, standing or ended. */
export interface GrantRecord {
  readonly fence: string;
  readonly owner_conn_id: number;
  readonly protocol?: "file" | "terraform" | "worker";
  readonly label?: string;
  /** RFC 3339, by the key's clock. */
  readonly granted_at: string;
  /** Absent if it is no longer known. */
  readonly waited_s?: number;
  /** Absent, like `ended`, while it is held. */
  readonly held_s?: number;
  readonly ended?: Ending;
}

export type Ending = "released" | "expired" | "disconnect" | "gone" | "stolen";

export interface History {
  /** The time by the key's clock. */
  readonly now: string;
  /** In the order of the grants. */
  readonly grants: readonly GrantRecord[];
}

/** `GET /v1/keys/{key}?history=true` */
export interface KeyState extends KeyReport {
  readonly history?: History;
}

/** What a page keeps, however long it is open. */
const MAX_GRANTS = 400;

/**
 * The current state with the ended grants of earlier replies: the service keeps them in memory only, and forgets them when
 * the key hibernates.
 */
export function withPast(state: KeyState, before: KeyState | undefined): KeyState {
  if (!state.history || !before?.history) return state;
  const told = new Set(state.history.grants.map(({ fence }) => fence));
  const past = before.history.grants.filter(({ fence, ended }) => ended !== undefined && !told.has(fence));
  if (past.length === 0) return state;
  const grants = [...past, ...state.history.grants].sort((a, b) => (a.granted_at < b.granted_at ? -1 : 1));
  return { ...state, history: { ...state.history, grants: grants.slice(-MAX_GRANTS) } };
}

/** How a grant is drawn: what matters is whether its holder released it. */
export type Outcome = "held" | "released" | "expired" | "lost";

export function outcomeOf({ ended }: GrantRecord): Outcome {
  if (ended === undefined) return "held";
  return ended === "released" || ended === "expired" ? ended : "lost";
}

export const OUTCOME_WORDS: Readonly<Record<Outcome, string>> = {
  held: "held now",
  released: "released",
  expired: "lease ran out",
  lost: "taken away, or its client left",
};

const ENDING_WORDS: Readonly<Record<Ending, string>> = {
  released: "released",
  expired: "lease ran out",
  disconnect: "its session ended",
  gone: "its client withdrew",
  stolen: "taken by an administrator",
};

export function endingOf({ ended }: GrantRecord): string {
  return ended === undefined ? "held now" : (ENDING_WORDS[ended] ?? ended);
}
