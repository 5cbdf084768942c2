import { kindOf, SessionCounts, type SessionKind, type Transport, type Which } from "../../core/session-counts.ts";
import { kindOfSession } from "../../core/session-names.ts";
import { log } from "../../log.ts";
import { sessionObject } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { inBatches } from "../pacing/batches.ts";
import { within } from "../pacing/within.ts";

export interface ListedSession {
  readonly session: string;
  readonly address: string;
  readonly transport: Transport;
  /** Empty if the client has no label. */
  readonly label: string;
}

/** Labels have a table of their own: most sessions have none. */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS sessions (session TEXT PRIMARY KEY, address TEXT NOT NULL, transport TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS labels (session TEXT PRIMARY KEY, label TEXT NOT NULL) WITHOUT ROWID;
`;

/** A closing socket is reported, so its session is assumed to be live for this long without being probed. */
const SOCKET_BELIEVED_MS = 60_000;
/** An HTTP session ends by silence, after two seconds at the earliest. */
const NEW_HTTP_BELIEVED_MS = 2_000;
/** A probe costs a request and wakes the session: about 100 HTTP sessions a second, each at most once a second. */
const HTTP_ASKED_EVERY_MS = 10;
const HTTP_BELIEVED_AT_LEAST_MS = 1_000;
const ASKED_AT_ONCE = 8;
/** A session that does not answer in this time counts as live. */
const ANSWERS_WITHIN_MS = 5_000;

/** What one call may cost. The sessions that it does not get to are probed by the next one. */
export interface ProbeLimits {
  readonly max: number;
  /** After this time no further probe begins. */
  readonly withinMs: number;
}

/** What is remembered of a listed session. */
interface Seen {
  readonly address: string;
  /** Until when it is assumed to be live; 0 if it must be probed first: it is from before a restart of the directory. */
  readonly believedUntil: number;
}

/** The sessions that a shard of the directory counts, and their labels. */
export class ListedSessions {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  /** Those that were seen longest ago come first. Complete once the sessions have been counted. */
  readonly #seen = new Map<string, Seen>();
  /** Undefined until a count is asked for. */
  #counts: SessionCounts | undefined;
  #hasUnseen = false;

  constructor(env: Env, sql: SqlStorage) {
    this.#env = env;
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  add({ session, address, transport, label }: ListedSession): void {
    this.#sql.exec("INSERT INTO sessions VALUES (?, ?, ?)", session, address, transport);
    this.#counts?.add(transport, address);
    const believedMs = transport === "http" ? NEW_HTTP_BELIEVED_MS : SOCKET_BELIEVED_MS;
    this.#seen.set(session, { address, believedUntil: Date.now() + believedMs });
    if (label !== "") this.relabel(session, label);
  }

  /** Removes a session and returns its kind, or undefined if it was not listed. */
  remove(session: string): SessionKind | undefined {
    const [row] = this.#sql
      .exec<{ transport: Transport; address: string }>(
        "DELETE FROM sessions WHERE session = ? RETURNING transport, address",
        session,
      )
      .toArray();
    if (row) this.#counts?.remove(row.transport, row.address);
    this.#sql.exec("DELETE FROM labels WHERE session = ?", session);
    this.#seen.delete(session);
    return row && kindOf(row.transport);
  }

  has(session: string): boolean {
    return this.#sql.exec("SELECT 1 FROM sessions WHERE session = ?", session).toArray().length > 0;
  }

  /** Relabels a listed session; an empty label removes its label. */
  relabel(session: string, label: string): void {
    if (label === "") this.#sql.exec("DELETE FROM labels WHERE session = ?", session);
    else if (this.has(session)) this.#sql.exec("INSERT OR REPLACE INTO labels VALUES (?, ?)", session, label);
  }

  labelsOf(sessions: readonly string[]): Record<string, string> {
    const rows = this.#sql
      .exec<{ session: string; label: string }>(
        "SELECT session, label FROM labels WHERE session IN (SELECT value FROM json_each(?))",
        JSON.stringify(sessions),
      )
      .toArray();
    return Object.fromEntries(rows.map(({ session, label }) => [session, label]));
  }

  count(which: Which = {}): number {
    return this.#counted.count(which);
  }

  countByTransport(): Record<Transport, number> {
    return this.#counted.byTransport();
  }

  /** Reads the table only if it has not been counted since the shard woke. */
  get #counted(): SessionCounts {
    if (this.#counts) return this.#counts;
    this.#counts = new SessionCounts();
    const rows = this.#sql.exec<{ session: string; address: string; transport: Transport }>("SELECT * FROM sessions");
    for (const { session, address, transport } of rows) {
      this.#counts.add(transport, address);
      if (this.#seen.has(session)) continue;
      this.#seen.set(session, { address, believedUntil: 0 });
      this.#hasUnseen = true;
    }
    return this.#counts;
  }

  /** There are sessions from before a restart of the directory, and no round over all sessions has ended since. */
  get hasUnseen(): boolean {
    return this.#counted.count() > 0 && this.#hasUnseen;
  }

  /** Probes some of the sessions in doubt, those seen longest ago first, and removes the dead ones. Returns how many it probed. */
  async strikeSome({ max, withinMs }: ProbeLimits, which: Which = {}): Promise<number> {
    const now = Date.now();
    const doubtful: string[] = [];
    let count = 0;
    if (this.#counted.count(which) === 0) return 0;
    for (const [session, { address, believedUntil }] of this.#seen) {
      if (believedUntil > now || !isMeant(which, session, address)) continue;
      count += 1;
      if (doubtful.length < max) doubtful.push(session);
    }
    return this.#strike(doubtful, { withinMs, doubtful: count });
  }

  /**
   * A part of a round over all sessions: like `strikeSome`, for the next ones after this name. Returns the last name it got
   * to; undefined at the end of the round.
   */
  async strikeNext(after: string, { max, withinMs }: ProbeLimits): Promise<string | undefined> {
    const now = Date.now();
    const sessions = this.#sql
      .exec<{ session: string }>("SELECT session FROM sessions WHERE session > ? ORDER BY session LIMIT ?", after, max)
      .toArray()
      .map(({ session }) => session);
    const doubtful = sessions.filter((session) => (this.#seen.get(session)?.believedUntil ?? 0) <= now);
    const probed = await this.#strike(doubtful, { withinMs, doubtful: doubtful.length });
    if (probed < doubtful.length) return probed === 0 ? after : doubtful[probed - 1];
    if (sessions.length === max) return sessions.at(-1);
    this.#hasUnseen = false;
    return undefined;
  }

  /** Probes these sessions in order, out of `doubtful` that are in doubt, and removes the dead ones. Returns how many it got to. */
  async #strike(
    sessions: readonly string[],
    { withinMs, doubtful }: { readonly withinMs: number; readonly doubtful: number },
  ): Promise<number> {
    const begunAt = Date.now();
    const httpBelievedMs = Math.max(HTTP_BELIEVED_AT_LEAST_MS, doubtful * HTTP_ASKED_EVERY_MS);
    let probed = 0;
    await inBatches(sessions, ASKED_AT_ONCE, async (session) => {
      if (Date.now() - begunAt >= withinMs) return;
      probed += 1;
      const believedMs = kindOfSession(session) === "httpSessions" ? httpBelievedMs : SOCKET_BELIEVED_MS;
      const address = this.#seen.get(session)?.address ?? this.#addressOf(session);
      // Deleted first: those seen longest ago stay in front.
      this.#seen.delete(session);
      if (!(await this.#isLive(session))) this.remove(session);
      else if (address !== undefined && this.has(session))
        this.#seen.set(session, { address, believedUntil: Date.now() + believedMs });
    });
    return probed;
  }

  /** An unreachable or slow session counts as live: a cap may be too strict, but is never exceeded. */
  async #isLive(session: string): Promise<boolean> {
    try {
      return (await within(ANSWERS_WITHIN_MS, sessionObject(this.#env, session).isLive()))?.isLive ?? true;
    } catch (error) {
      log("warn", "session_unreachable", { error: String(error) });
      return true;
    }
  }

  #addressOf(session: string): string | undefined {
    const rows = this.#sql.exec<{ address: string }>("SELECT address FROM sessions WHERE session = ?", session);
    return rows.toArray()[0]?.address;
  }
}

function isMeant(which: Which, session: string, address: string): boolean {
  if (which.kind !== undefined && kindOfSession(session) !== which.kind) return false;
  return which.address === undefined || which.address === address;
}
