import { sameSecret } from "../core/auth/secrets.ts";
import { SessionCounts } from "../core/session-counts.ts";
import { httpSessionName, kindOfSession } from "../core/session-names.ts";
import type { ClientEntry, Credential, SessionRefusal } from "../service.ts";
import { ClientSession } from "./client-session.ts";
import type { Admission, ArrivalRefusal, Clients } from "./clients.ts";
import { RestSession } from "./rest-session.ts";
import type { Session, SessionStart } from "./session.ts";
import type { SessionHost } from "./session-host.ts";
import type { Rows, Store, StoredRecords } from "./store/store.ts";

export type AnySession = ClientSession | RestSession;

/** What is stored of a client beside the records of its session. */
interface StoredClient {
  readonly address: string;
  readonly transport: "tcp" | "ws" | "http";
  readonly label?: string;
}

/** A session of which nothing is stored, after its batch has failed. */
export interface LostSession {
  readonly name: string;
  /** Its client had left. Otherwise it is our fault that it is gone. */
  readonly hasLeft: boolean;
}

/** All sessions: who is there, what caps allow, and what of them has to be stored. */
export class Sessions implements Clients {
  readonly #host: SessionHost;
  readonly #store: Store;
  readonly #randomHex: (bytes: number) => string;
  readonly #byName = new Map<string, AnySession>();
  readonly #counts = new SessionCounts();
  readonly #listed = new Set<Session>();
  /** Of the batch. New ones for each: V8 lets a set that was cleared grow where only a full garbage collection comes by. */
  #changed = new Set<Session>();
  #touched = new Set<Session>();
  /** Sessions that were read from the store, and have yet to go on from there. */
  readonly #restored = new Set<AnySession>();
  #hasRevived = false;
  #lastId = 0;

  constructor(host: SessionHost, store: Store, randomHex: (bytes: number) => string) {
    this.#host = host;
    this.#store = store;
    this.#randomHex = randomHex;
  }

  get(name: string): AnySession | undefined {
    return this.#byName.get(name);
  }

  get byTransport(): ReturnType<SessionCounts["byTransport"]> {
    return this.#counts.byTransport();
  }

  labelOf(name: string): string | undefined {
    return this.#byName.get(name)?.label;
  }

  admit(arrival: ClientEntry): Admission | ArrivalRefusal {
    const { maxConnections, maxConnectionsPerIp } = this.#host.config;
    const { address, transport, label } = arrival;
    const isFull = (cap: number, count: () => number) => cap > 0 && count() >= cap;
    if (isFull(maxConnections, () => this.#counts.count({ kind: "connections" }))) return "max_connections";
    if (isFull(maxConnectionsPerIp, () => this.#counts.count({ kind: "connections", address })))
      return "max_connections_per_ip";
    const session = new ClientSession(this.#host, { name: this.#randomHex(16), address, transport, label });
    this.#add(session);
    return {
      attach: (carrier) => session.attach(carrier, arrival),
      abandon: () => this.#host.batch.enter(() => session.abandon()),
    };
  }

  async resume(arrival: ClientEntry, { session: name, secret }: Credential): Promise<Admission | ArrivalRefusal> {
    const session = this.#byName.get(name);
    // It may have ended in this batch, which may fail.
    if (!(session instanceof ClientSession))
      return this.#host.batch.ask(() => "session_gone" as const).catch(() => "unavailable");
    const refusal = await session.resume(session.secret !== undefined && sameSecret(secret, session.secret));
    if (refusal !== undefined) return refusal as ArrivalRefusal;
    if (session.hasConversation) return "session_in_use";
    return {
      attach: (carrier) => session.attach(carrier, arrival),
      abandon: () => this.#host.batch.enter(() => session.opening(false)),
    };
  }

  /** Opens the session of an HTTP client, part of a batch. */
  openRest(
    address: string,
    label: string | undefined,
  ): { readonly status: "opened"; readonly id: string } | SessionRefusal {
    if (!this.#host.isWell) return { status: "unavailable" };
    const { httpMaxSessions, httpMaxSessionsPerIp } = this.#host.config;
    const count = (which: { readonly address?: string }) => this.#counts.count({ kind: "httpSessions", ...which });
    if (httpMaxSessions > 0 && count({}) >= httpMaxSessions) return { status: "max_sessions" };
    if (httpMaxSessionsPerIp > 0 && count({ address }) >= httpMaxSessionsPerIp)
      return { status: "max_sessions_per_ip" };
    const id = this.#randomHex(16);
    const session = new RestSession(this.#host, { name: httpSessionName(id), address, transport: "http", label });
    this.#add(session);
    session.open();
    return { status: "opened", id };
  }

  rest(id: string): RestSession | undefined {
    const session = this.#byName.get(httpSessionName(id));
    return session instanceof RestSession ? session : undefined;
  }

  /** Takes over a session as it is stored: it has lost its connection, and may be resumed at once. */
  restore(rowId: number, name: string, stored: StoredRecords, keys: Iterable<string>): AnySession {
    const { client, ...records } = stored;
    const { address, transport, label } = client as StoredClient;
    const start: SessionStart = { name, address, transport, label, rowId, stored: records, keys };
    const session =
      kindOfSession(name) === "httpSessions"
        ? new RestSession(this.#host, start)
        : new ClientSession(this.#host, start);
    this.#lastId = Math.max(this.#lastId, rowId);
    this.#add(session);
    this.#restored.add(session);
    return session;
  }

  /** Lets the sessions that were restored go on: their time runs, and those that were ending end. Part of a batch. */
  revive(): void {
    for (const session of this.#restored) session.revive();
    this.#hasRevived = true;
  }

  touched(session: Session): void {
    this.#touched.add(session);
  }

  changed(session: Session): void {
    this.#changed.add(session);
  }

  /** Its client has left: it counts no longer. */
  unlisted(session: Session): void {
    if (this.#listed.delete(session)) this.#counts.remove(session.transport, session.address);
  }

  ended(session: Session): void {
    this.unlisted(session);
    if (this.#byName.get(session.name) === session) this.#byName.delete(session.name);
  }

  get hasChanges(): boolean {
    return this.#changed.size > 0;
  }

  write(rows: Rows): void {
    for (const session of this.#changed) {
      const records = recordsOf(session);
      if (records) {
        if (session.rowId === 0) {
          this.#lastId += 1;
          session.rowId = this.#lastId;
        }
        rows.putSession(session.rowId, session.name, JSON.stringify(records));
      } else if (session.rowId > 0) rows.deleteSession(session.rowId);
    }
  }

  committed(): void {
    if (this.#hasRevived) this.#restored.clear();
    this.#hasRevived = false;
    if (this.#changed.size > 0) this.#changed = new Set();
    if (this.#touched.size > 0) this.#touched = new Set();
  }

  /**
   * The batch has failed. Those that took part in it are read again, and have lost their connections. Returns
   * those of which nothing is stored: they are gone. `keysOf` tells the keys on which a session has something.
   */
  takeBack(keysOf: (session: Session) => Iterable<string>): readonly LostSession[] {
    const touched = [...this.#touched];
    this.#hasRevived = false;
    this.committed();
    return touched.flatMap((session) => {
      this.#drop(session);
      return this.#replace(session, this.#store.loadSession(session.rowId), () => keysOf(session)) ?? [];
    });
  }

  /**
   * A command of the session has thrown, and nothing is stored. It continues from its records as they are, and has lost its
   * connection. Returns it if it has none: then it is gone.
   */
  startOver(session: Session): LostSession | undefined {
    this.#drop(session);
    return this.#replace(session, recordsOf(session), () => session.keys);
  }

  #drop(session: Session): void {
    this.ended(session);
    this.#restored.delete(session as AnySession);
    session.drop();
  }

  #replace(session: Session, stored: StoredRecords | undefined, keys: () => Iterable<string>): LostSession | undefined {
    if (!stored) return { name: session.name, hasLeft: session.hasLeft };
    const restored = this.restore(session.rowId, session.name, stored, keys());
    if (session instanceof RestSession && restored instanceof RestSession) restored.abandon(session.abandoned);
    return undefined;
  }

  #add(session: AnySession): void {
    this.#byName.set(session.name, session);
    this.#listed.add(session);
    this.#counts.add(session.transport, session.address);
  }
}

/** What is stored of a session; undefined if it leaves nothing behind. */
function recordsOf({ stored, address, transport, label }: Session): StoredRecords | undefined {
  if (!stored) return undefined;
  const client: StoredClient = { address, transport, ...(label !== undefined && { label }) };
  return { ...stored, client };
}
