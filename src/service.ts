/**
 * The service port: what HTTP, reports and sockets need of a host. Cloudflare's Durable Objects and the Node process each
 * implement it, and neither is known to the code that uses it.
 *
 * A promise resolves only when everything it tells is durable, reads included. A rejection means that nothing was told,
 * and that whatever was granted is being withdrawn: callers answer 503.
 */
import type { Principal } from "./core/auth/principal.ts";
import type { ConfigResult } from "./core/config/config.ts";
import type {
  ClaimCommand,
  ClaimOutcome,
  HolderView,
  KeyCommandOf,
  KeyOutcomeOf,
  KeyView,
  Queued,
  Refusal,
  StealOutcome,
  WaiterView,
  WouldWait,
} from "./core/engine/index.ts";
import type { PeerView } from "./core/group/presence.ts";
import type { HistoryView } from "./core/key/history.ts";
import type { KeyGauges } from "./core/key/key-gauges.ts";
import type { Counting, Sums } from "./core/metrics/tally.ts";
import type { Outcome } from "./core/protocols/statuses.ts";
import type { KeyRequest } from "./core/session/key-calls.ts";
import type { Rights } from "./core/session/rights.ts";
import type { SocketProtocol } from "./core/session/socket-session.ts";
import type { Transport } from "./core/session-counts.ts";
import type { SessionlessProtocol } from "./core/session-names.ts";
import type { Log } from "./log.ts";

/** Hono's bindings, made by the host for each request. */
export interface Bindings {
  readonly service: Service;
  /** The address of the connection, if the host knows it. A configured header comes first. */
  readonly address: string | undefined;
  /** The beginning of all paths, `/locks` for example, if the service is part of a site. */
  readonly mount?: string;
  /** Who the caller is, if the host knows: then nothing has to be shown, and no rate is limited. */
  readonly principal?: Principal;
}

export interface Service {
  /** Read once. With an invalid one only the probes are served, and nothing else of the port is used. */
  readonly config: ConfigResult;
  readonly log: Log;
  readonly keys: Keys;
  readonly rest: RestSessions;
  readonly sockets: Sockets;
  readonly directory: Directory;
  readonly meter: Meter;
  /** Undefined if this deployment is on its own. */
  readonly group: Group | undefined;
  /** Undefined on a host where there is nothing to copy: Cloudflare stores each key by itself. */
  readonly backup: Backup | undefined;
  /** Whole seconds after which this address may ask again; undefined if it may now. Never rejects. */
  retryAfter(address: string): Promise<number | undefined>;
  /** Whether new work can be stored, or could a few seconds ago. Never rejects, and answers within seconds. */
  isReady(): Promise<boolean>;
  /**
   * Finds an answer, or shares the one to an equal question, but never one that was begun before this call. `question`
   * names everything the answer depends on, including the caller's rights. The answer must not be modified. If it may take
   * long, `address` is that of the client: a host may find few of these at a time, and one for each address.
   */
  share<Answer>(question: string, find: () => Promise<Answer>, address?: string): Promise<Answer>;
}

export interface Backup {
  /** Copies everything that is durable, as of one moment. */
  take(): Promise<BackupCopy | Refusal<"in_memory" | "under_way" | "no_room">>;
}

/** Whoever has it reads `content` to its end, or cancels it. */
export interface BackupCopy {
  readonly status: "taken";
  readonly bytes: number;
  readonly content: ReadableStream<Uint8Array>;
}

/** The request is withdrawn: its signal was aborted before the outcome was handed over. Nothing is held by it. */
export type Left = Refusal<"left">;

/** There is no such session, or it has ended. */
export type Gone = Refusal<"gone">;

/** What is asked of a key without a session. */
export type DirectCommand = KeyCommandOf<"current" | "refresh" | "remove">;

export interface Keys {
  /** One command on one key, carried out at most once. Those of one caller on one key keep their order. */
  ask<Type extends DirectCommand["type"]>(key: string, command: KeyCommandOf<Type>): Promise<KeyOutcomeOf<Type>>;
  /**
   * Takes the lock for a holder without a session, and waits for it in the key's queue for up to `waitMs`. If the signal
   * is aborted before the outcome is handed over, or the outcome stays unknown, the claim is withdrawn, even if the
   * caller is long gone.
   */
  claim(key: string, claim: Claim, signal: AbortSignal): Promise<ClaimEnd>;
  /** Takes the hold with this fence, 16 hex digits, from its holder, and gives the slot to the next waiter in one step. */
  steal(
    key: string,
    fence: string,
  ): Promise<Labelled<Extract<StealOutcome, { status: "stolen" }>> | Refusal<"not_held">>;
  /** The key with all members that it shows; undefined if it does not exist. Creates nothing. */
  describe(key: string, options: { readonly history: boolean }): Promise<KeyReport | undefined>;
}

/** A request for a lock by a holder without a session. The host names the holder and the request. */
export interface Claim extends Pick<ClaimCommand, "leaseSeconds" | "waitMs"> {
  readonly sessionless: ClaimCommand["sessionless"] & { readonly kind: SessionlessProtocol };
}

/** A decided claim; `unavailable` if nothing can be stored. */
export type ClaimEnd = Exclude<ClaimOutcome, Queued | WouldWait> | Refusal<"unavailable"> | Left;

export interface RestSessions {
  /** Opens a session for a client at this address, unless it is refused: then nothing is left behind. */
  open(address: string, label: string | undefined): Promise<OpenedSession | SessionRefusal>;
  /** The client is alive. False if there is no such session. */
  ping(id: string): Promise<boolean>;
  /** Ends the session: once this resolves, everything it held is free. False if there was no such session. */
  end(id: string): Promise<boolean>;
  /**
   * Carries a request out, waiting for as long as it may, and counts as a sign of life. Requests of one session on one
   * key begin in the order in which they were made. If the signal is aborted before the answer is handed over, the
   * request is withdrawn (ADR 12): a `wait` ends its place, anything else is as if it had not been made. A request that
   * leaves nothing to withdraw (see `mayHold`) needs no signal. The caller sends the answer without awaiting anything else.
   */
  perform(id: string, ask: RestRequest, signal: AbortSignal | undefined): Promise<Outcome | Gone | Left>;
}

export interface OpenedSession {
  readonly status: "opened";
  /** 32 hex digits. It is a credential. */
  readonly id: string;
}

/** A cap forbids it, or nothing can be stored. */
export type SessionRefusal = Refusal<"max_sessions" | "max_sessions_per_ip" | "unavailable">;

export interface RestRequest {
  readonly request: KeyRequest;
  /** A new name for the client. */
  readonly label: string | undefined;
}

export interface Sockets {
  /**
   * Makes an upgrade request the socket of a new or resumed session, or of a peer. From here on the host owns it: bytes,
   * back-pressure, hang-up, sleep. `headers` are those of the 101 response. Never rejects.
   *
   * Browsers do not tell a page the status of a refused upgrade. So a client that cannot resume gets an open socket that
   * is closed with `CLOSE.gone` (the response then has the `REFUSAL_HEADER`) or `CLOSE.inUse`; every other refusal is a
   * value.
   */
  upgrade(request: Request, arrival: Arrival, headers: Headers): Promise<Upgraded | SocketRefusal>;
}

export interface Upgraded {
  readonly status: "upgraded";
  /** For the host alone: what the app has to return. It counts as 101, whatever its status says. */
  readonly response: Response;
}

export type SocketRefusal = Refusal<"max_connections" | "max_connections_per_ip" | "draining" | "unavailable">;

/** A client, or the relay of another deployment. */
export type Arrival = ClientArrival | PeerArrival;

export interface ClientArrival {
  readonly type: "client";
  readonly entry: ClientEntry;
  /** Set if the client wants to resume a session that has lost its socket. */
  readonly credential: Credential | undefined;
}

export interface PeerArrival {
  readonly type: "peer";
  /** It has shown the group's token. */
  readonly isKnown: boolean;
  /** As in `ClientEntry`. */
  readonly hasWindow: boolean;
}

/** How a client connected. */
export interface ClientEntry {
  readonly protocol: SocketProtocol;
  readonly transport: Transport;
  readonly address: string;
  /** The upgrade has authenticated the client. */
  readonly isAuthenticated: boolean;
  /** The rights that the upgrade gave the client. */
  readonly rights: Rights;
  /** A name the client has chosen, visible to others. */
  readonly label?: string | undefined;
  /** It is carried for a client that cannot resume, and the carrier wants to know how much of its input was consumed. */
  readonly hasWindow: boolean;
}

/** What a client shows to resume its session. */
export interface Credential {
  readonly session: string;
  readonly secret: string;
}

export interface Directory {
  /** The first keys of a range, with the live sessions. A long page need not show one moment. Changes nothing. */
  page(range: KeyRange): Promise<KeyPage>;
  /** The service in numbers. Without `mayEstimate`, figures that would be extrapolated from a sample are left out. */
  gauges(options: { readonly mayEstimate: boolean }): Promise<Gauges>;
}

/** Which keys to look for, and in how much detail. */
export interface KeyRange {
  readonly prefix: string;
  /** Starts after this key. */
  readonly after: string;
  /** Maximum number of existing keys. */
  readonly limit: number;
  /** With all members that a key shows; otherwise with the first holder at most. */
  readonly detail: boolean;
  /** Keys for which this is false are skipped. */
  readonly sees: (key: string) => boolean;
}

export interface KeyPage {
  readonly sessions: Readonly<Record<Transport, number>>;
  /** In the order of their UTF-8 bytes. May be fewer than asked for. */
  readonly keys: readonly (KeyReport & { readonly key: string })[];
  /** Keys that exist but cannot be read, in the same order. */
  readonly unreachable: readonly string[];
  /** The last key looked at, if more may follow. */
  readonly next: string | undefined;
  /** Some sessions and keys may be missing: a part of the directory does not answer, or has heard of keys late. */
  readonly isBehind: boolean;
}

/** With the label of its session, if that has one. */
export type Labelled<View> = View & { readonly label?: string };

/** A key as it is now. Times are by the key's clock. */
export interface KeyReport extends Omit<KeyView, "holders" | "queue"> {
  readonly holders: readonly Labelled<HolderView>[];
  readonly queue: readonly Labelled<WaiterView>[];
  /** Only if asked for. */
  readonly history?: HistoryView;
}

export interface Gauges {
  /** Live sessions. */
  readonly sessions: Readonly<Record<Transport, number>>;
  /** Keys that exist and can be read; keys that are listed, if not all of them were looked at. */
  readonly keys: number;
  /** Keys that were listed late in the last minute; absent where keys are not listed. */
  readonly listingBacklog?: number;
  /** Keys that were looked at. */
  readonly keysSampled: number;
  /** Not all keys were looked at: `byState` is extrapolated. */
  readonly isEstimate: boolean;
  /** Undefined if it would be an estimate and none is wanted. */
  readonly byState: KeyGauges | undefined;
  /** The size of the database's log file; undefined on a host that has none. */
  readonly logBytes?: number | undefined;
}

export interface Meter extends Counting {
  /** Everything counted before, as sums that never fall, not even after a crash. Rejects rather than leave a part out. */
  read(): Promise<MeterReading>;
}

export interface MeterReading {
  readonly sums: Sums;
  /** Since when it is counted, in milliseconds since the epoch. */
  readonly startedAt: number;
}

export interface Group {
  /** The ids of the peers heard from in the last seconds. */
  present(): Promise<readonly string[]>;
  /** All peers. Silent ones are asked for a sign of life first, which may take half a second. */
  peers(): Promise<readonly PeerView[]>;
}
