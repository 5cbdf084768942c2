import type { Slot } from "../engine/index.ts";
import { flagsOf, releasesOf, type SlotRow } from "./row-codec.ts";
import { encodeSessionless } from "./sessionless-row.ts";

/** Version of the stored format. A new format gets a new number. */
const VERSION = 1;

/**
 * A key that has never had more than its first slot, as one record: most keys are used by one client and forgotten.
 * Tables would cost two rows each before anything is in them.
 */
export interface CompactRecord {
  readonly limit: number;
  /** Hexadecimal. */
  readonly fence: string;
  readonly lastActivity: number;
  readonly isListed: boolean;
  readonly slot: SlotRow | null;
}

export function encodeCompact(record: CompactRecord): string {
  return JSON.stringify({ v: VERSION, ...record });
}

export function decodeCompact(text: string): CompactRecord {
  const { v, ...record } = JSON.parse(text) as CompactRecord & { readonly v: number };
  if (v !== VERSION) {
    throw new Error(
      `the key is stored in format ${v}; this version reads format ${VERSION} only: ` +
        "deploy the version that wrote it, or delete the object's data",
    );
  }
  return record;
}

/** A slot as a row. That of a free one keeps its token: the fence must not be forgotten. */
export function slotRow(slot: Slot): SlotRow {
  return {
    slot: slot.index,
    token: slot.token,
    session: slot.session,
    request: slot.request,
    lease_s: slot.leaseSeconds,
    expires_at: slot.expiresAt,
    since: slot.since,
    place: slot.place,
    flags: flagsOf(slot),
    releases: releasesOf(slot),
    sessionless: slot.sessionless ? encodeSessionless(slot.sessionless) : null,
  };
}
