/**
 * A key as its object keeps it: an engine, and plain rows that hold exactly what the SQLite store would. The engine can
 * be thrown away between any two commands and rebuilt from the rows alone.
 */
import {
  type CancelOptions,
  type Changes,
  type CommandContext,
  type KeyCommand,
  KeyEngine,
  type KeyEvent,
  type NoticeAnswer,
  type Observation,
  perform,
  type Quorum,
  type RelayQuestion,
  type Round,
  type RoundEnd,
  type RoundOf,
  type Sessionless,
  Slot,
  type StoredKey,
  Waiter,
} from "../../src/core/engine/index.ts";

export interface SlotRow {
  readonly index: number;
  readonly token: string;
  readonly session: string;
  readonly request: string;
  readonly leaseSeconds: number;
  readonly expiresAt: number;
  readonly since: number;
  readonly place: number;
  readonly isHeld: boolean;
  readonly isReported: boolean;
  readonly isWatched: boolean;
  readonly isOffered: boolean;
  readonly hasRecord: boolean;
  readonly sessionless: Sessionless | undefined;
  readonly round?: Round;
  readonly asksWanted?: true;
  readonly wasKnown?: true;
  readonly releases?: Slot["releases"];
}

export interface WaiterRow {
  readonly place: number;
  readonly session: string;
  readonly request: string;
  readonly waitRequest: string | undefined;
  readonly isEnqueued: boolean;
  readonly leaseSeconds: number;
  readonly joinedAt: number;
  readonly deadline: number;
  readonly outcome: "timeout" | "lease_expired" | undefined;
  readonly sessionless: Sessionless | undefined;
  readonly quorum?: Quorum;
  readonly asksWanted?: true;
}

export interface KeyRow {
  readonly limit: number;
  readonly fence: bigint;
  readonly foundedAt: number;
}

/** The rows of one key. Values are copied on the way in and out, as a database would. */
export class Rows {
  key: KeyRow;
  readonly slots = new Map<number, SlotRow>();
  readonly waiters = new Map<number, WaiterRow>();
  readonly lapsed = new Map<string, number>();

  constructor(key: KeyRow) {
    this.key = key;
  }

  /** Writes one command's changes; returns the number of rows written. */
  write({ slots, waiters, lapsed, limit }: Changes): number {
    for (const slot of slots) this.slots.set(slot.index, slotRow(slot));
    for (const waiter of waiters) {
      if (!waiter.isStored) this.waiters.delete(waiter.place);
      else this.waiters.set(waiter.place, waiterRow(waiter));
    }
    for (const [session, at] of lapsed) {
      if (at === undefined) this.lapsed.delete(session);
      else this.lapsed.set(session, at);
    }
    if (limit !== undefined) this.key = { ...this.key, limit };
    return slots.size + waiters.size + lapsed.size + (limit === undefined ? 0 : 1);
  }

  load(): StoredKey {
    const promoted = new Map<number, Slot>();
    const slots = [...this.slots.values()]
      .sort((a, b) => a.index - b.index)
      .map((row) => {
        const slot = slotFrom(row);
        if (row.isHeld && row.place > 0) promoted.set(row.place, slot);
        return slot;
      });
    const waiters = [...this.waiters.values()]
      .sort((a, b) => a.place - b.place)
      .map((row) => waiterFrom(row, promoted.get(row.place)));
    const lapsed = [...this.lapsed].sort(([, a], [, b]) => a - b);
    return { limit: this.key.limit, fence: this.key.fence, lastActivity: this.key.foundedAt, slots, waiters, lapsed };
  }

  /** Everything stored, for comparing two stores. */
  dump(): unknown {
    const { key, limit, fence, ...rest } = { key: this.key.foundedAt, ...this.load() };
    const slots = rest.slots.map(slotRow);
    const waiters = rest.waiters.map(waiterRow);
    return { key, limit, fence: fence.toString(), slots, waiters, lapsed: rest.lapsed };
  }
}

/** One call to a key, as data, so that a whole history can be replayed. */
export type Call =
  | { readonly do: "acquire"; readonly command: Parameters<KeyEngine["acquire"]>[0] }
  | { readonly do: "enqueue"; readonly command: Parameters<KeyEngine["enqueue"]>[0] }
  | { readonly do: "wait"; readonly command: Parameters<KeyEngine["wait"]>[0] }
  /** `id`: the call may be made again. */
  | { readonly do: "release" | "giveBack"; readonly token: string; readonly session: string; readonly id?: string }
  | { readonly do: "steal"; readonly fence: string }
  | { readonly do: "renew"; readonly token: string; readonly leaseSeconds: number; readonly isWatched?: true }
  | { readonly do: "pickUp"; readonly request: string }
  | ({ readonly do: "cancel"; readonly request: string } & CancelOptions)
  | { readonly do: "watch"; readonly session: string }
  /** `offered`: the token that the notice carried. */
  | {
      readonly do: "answer";
      readonly request: string;
      readonly answer: NoticeAnswer;
      readonly offered?: string | undefined;
    }
  | { readonly do: "leave"; readonly session: string; readonly keepsReported: boolean }
  | { readonly do: "claim"; readonly command: Parameters<KeyEngine["claim"]>[0] }
  | { readonly do: "collect"; readonly request: string }
  | { readonly do: "refresh"; readonly command: Parameters<KeyEngine["refresh"]>[0] }
  | { readonly do: "remove"; readonly selector: Parameters<KeyEngine["remove"]>[0]; readonly id?: string }
  | { readonly do: "relay"; readonly question: RelayQuestion }
  | { readonly do: "keepRound" | "agreeRound"; readonly of: RoundOf }
  | { readonly do: "fenceRound"; readonly of: RoundOf; readonly floor: bigint }
  | { readonly do: "failRound"; readonly of: RoundOf; readonly end: RoundEnd }
  | { readonly do: "agreedHold"; readonly token: string; readonly session: string }
  | { readonly do: "prolong"; readonly token: string; readonly leaseMs: number; readonly askedAt: number }
  | { readonly do: "fenceOfHolder" }
  | { readonly do: "tick" }
  /** The object is evicted; the next access builds the engine from the rows. */
  | { readonly do: "reload" }
  /** The idle key is forgotten, except for its fence, and created again. */
  | { readonly do: "prune"; readonly limit: number };

export interface Result {
  readonly outcome: unknown;
  readonly events: readonly KeyEvent[];
  readonly observations: readonly Observation[];
  readonly rowsWritten: number;
}

export class StoredEngine {
  rows: Rows;
  engine: KeyEngine;
  /** Highest fence the directory has been told of. */
  mark = 0n;

  constructor(limit: number, now: number) {
    this.rows = new Rows({ limit, fence: 0n, foundedAt: now });
    this.engine = new KeyEngine(this.rows.load());
  }

  /** Runs one call and stores its changes before returning its result. */
  run(call: Call, context: CommandContext): Result {
    const outcome = this.#perform(call, context);
    const rowsWritten = this.rows.write(this.engine.takeChanges());
    const observations = this.engine.takeObservations();
    return { outcome, events: this.engine.takeEvents(), observations, rowsWritten };
  }

  #perform(call: Call, context: CommandContext): unknown {
    const { engine } = this;
    switch (call.do) {
      case "answer":
        return engine.answer(call.request, call.answer, context, call.offered);
      case "keepRound":
        return engine.rounds.keep(call.of, context);
      case "agreeRound":
        return engine.rounds.agree(call.of, context);
      case "fenceRound":
        return engine.rounds.fence(call.of, call.floor, context);
      case "failRound":
        return engine.rounds.fail(call.of, call.end, context);
      case "prolong":
        return engine.rounds.prolong(call.token, call.leaseMs, call.askedAt, context);
      case "fenceOfHolder":
        return engine.relays.fenceOfHolder(context);
      case "tick":
        return engine.tick(context);
      case "reload":
        this.engine = new KeyEngine(this.rows.load());
        return undefined;
      case "prune":
        if (engine.lastFence > this.mark) this.mark = engine.lastFence;
        this.rows = new Rows({ limit: call.limit, fence: this.mark, foundedAt: context.now });
        this.engine = new KeyEngine(this.rows.load());
        return undefined;
      default: {
        const { do: type, ...rest } = call;
        return perform(engine, { type, ...rest } as KeyCommand, context);
      }
    }
  }
}

function slotRow(slot: Slot): SlotRow {
  const { index, token, session, request, leaseSeconds, expiresAt, since, place } = slot;
  const { isHeld, isReported, isOffered, isWatched, hasRecord, sessionless, round, asksWanted, wasKnown } = slot;
  const row = { index, token, session, request, leaseSeconds, expiresAt, since, place };
  const flags = { ...(round && { round }), ...(asksWanted && { asksWanted }), ...(wasKnown && { wasKnown }) };
  const ended = slot.releases.length > 0 ? { releases: slot.releases } : {};
  return { ...row, isHeld, isReported, isOffered, isWatched, hasRecord, sessionless, ...flags, ...ended };
}

function waiterRow(waiter: Waiter): WaiterRow {
  const { place, session, request, waitRequest, isEnqueued, leaseSeconds, joinedAt, deadline, quorum, asksWanted } =
    waiter;
  // As in the database, a refusal by other deployments is not stored: after a restart the request asks them again.
  const outcome = waiter.outcome === "timeout" || waiter.outcome === "lease_expired" ? waiter.outcome : undefined;
  const row = { place, session, request, waitRequest, isEnqueued, leaseSeconds, joinedAt, deadline, outcome };
  const flags = { ...(quorum && { quorum }), ...(asksWanted && { asksWanted }) };
  return { ...row, sessionless: waiter.sessionless, ...flags };
}

function slotFrom({ index, ...row }: SlotRow): Slot {
  return Object.assign(new Slot(index), row);
}

function waiterFrom({ waitRequest, outcome, ...row }: WaiterRow, slot: Slot | undefined): Waiter {
  return Object.assign(new Waiter(row), { waitRequest, outcome, slot });
}
