import { kindOf, SessionCounts, type SessionKind, type Transport, type Which } from "../../core/session-counts.ts";
import { kindOfSession } from "../../core/session-names.ts";
import { log } from "../../log.ts";
import { sessionObject } from "../calls/session-names.ts";
import type { Env } from "../env.ts";
import { inBatches } from "../pacing/batches.ts";

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
/** The belief in a session from before a restart of the directory. */
const UNSEEN = 0;

/** The sessions that a shard of the directory counts, and their labels. */
export class ListedSessions {
  readonly #env: Env;
  readonly #sql: SqlStorage;
  /** Until when a session is assumed to be live; sessions from before a restart of the directory must be probed. */
  readonly #believedUntil = new Map<string, number>();
  /** Undefined until a count is asked for. */
  #counts: SessionCounts | undefined;

  constructor(env: Env, sql: SqlStorage) {
    this.#env = env;
    this.#sql = sql;
    sql.exec(SCHEMA);
  }

  add({ session, address, transport, label }: ListedSession): void {
    this.#sql.exec("INSERT INTO sessions VALUES (?, ?, ?)", session, address, transport);
    this.#counts?.add(transport, address);
    const believedMs = transport === "http" ? NEW_HTTP_BELIEVED_MS : SOCKET_BELIEVED_MS;
    this.#believedUntil.set(session, Date.now() + believedMs);
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
    this.#believedUntil.delete(session);
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
      if (!this.#believedUntil.has(session)) this.#believedUntil.set(session, UNSEEN);
    }
    return this.#counts;
  }

  /** Probes sessions that have not been seen lately and removes the dead ones. */
  async strikeDead(which: Which = {}): Promise<void> {
    const now = Date.now();
    const doubtful = this.#select<{ session: string }>("session", which).filter(
      ({ session }) => (this.#believedUntil.get(session) ?? 0) <= now,
    );
    await this.#strike(
      doubtful.map(({ session }) => session),
      doubtful.length,
    );
  }

  /** Whether there are sessions from before a restart of the directory that have not been probed yet. */
  get hasUnseen(): boolean {
    if (this.#counted.count() > 0) for (const until of this.#believedUntil.values()) if (until === UNSEEN) return true;
    return false;
  }

  /** Like `strikeDead`, for at most `max` of the sessions that were probed longest ago. Returns how many. */
  async strikeSome(max: number): Promise<number> {
    const now = Date.now();
    const doubtful: string[] = [];
    let count = 0;
    if (this.#counted.count() === 0) return 0;
    for (const [session, until] of this.#believedUntil) {
      if (until > now) continue;
      count += 1;
      if (doubtful.length < max) doubtful.push(session);
    }
    await this.#strike(doubtful, count);
    return doubtful.length;
  }

  /** Probes sessions, out of `doubtful` that are in doubt, and removes the dead ones. */
  async #strike(sessions: readonly string[], doubtful: number): Promise<void> {
    const httpBelievedMs = Math.max(HTTP_BELIEVED_AT_LEAST_MS, doubtful * HTTP_ASKED_EVERY_MS);
    await inBatches(sessions, ASKED_AT_ONCE, async (session) => {
      const believedMs = kindOfSession(session) === "httpSessions" ? httpBelievedMs : SOCKET_BELIEVED_MS;
      // Deleted first: those probed longest ago stay in front.
      this.#believedUntil.delete(session);
      if (!(await this.#isLive(session))) this.remove(session);
      else if (this.has(session)) this.#believedUntil.set(session, Date.now() + believedMs);
    });
  }

  /** An unreachable session counts as live: a cap may be too strict, but is never exceeded. */
  async #isLive(session: string): Promise<boolean> {
    try {
      return (await sessionObject(this.#env, session).isLive()).isLive;
    } catch (error) {
      log("warn", "session_unreachable", { error: String(error) });
      return true;
    }
  }

  #select<Row extends Record<string, SqlStorageValue>>(columns: string, { kind, address }: Which): Row[] {
    const isHttp = kind === undefined ? null : Number(kind === "httpSessions");
    return this.#sql
      .exec<Row>(
        `SELECT ${columns} FROM sessions WHERE (transport = 'http') = coalesce(?, transport = 'http') AND address = coalesce(?, address)`,
        isHttp,
        address ?? null,
      )
      .toArray();
  }
}
