import type { Config } from "../core/config/config.ts";
import type { SessionOrigin } from "../core/session/context.ts";
import type { Happening, ReportRequest, SessionRecords } from "../core/session/effects.ts";
import type { KeyCall, KeyOutcome } from "../core/session/key-calls.ts";
import type { Transport } from "../core/session-counts.ts";
import type { Log } from "../log.ts";
import type { ReportAsker } from "../reports/report-queue.ts";
import type { Batch } from "./batch.ts";
import type { Inputs } from "./input.ts";
import type { Session } from "./session.ts";

/** What sessions need of their host. */
export interface SessionHost {
  readonly batch: Batch;
  readonly inputs: Inputs;
  readonly config: Config;
  readonly log: Log;
  /** Whether new work can be stored. */
  readonly isWell: boolean;
  now(): number;
  after(ms: number, callback: () => void): void;
  /** What the state machine of a session is made from. */
  originOf(name: string, records: SessionRecords): SessionOrigin;
  /** Its deadline may have become earlier. */
  schedule(session: Session): void;
  /** It takes part in this batch. */
  touched(session: Session): void;
  /** One of its commands has thrown: it may be half changed. */
  broke(session: Session): void;
  /** What is stored of it has changed. */
  changed(session: Session): void;
  /** Its client has left: it is no longer counted. */
  unlisted(session: Session): void;
  /** It has left all its keys, and nothing of it is left. */
  ended(session: Session): void;
  callKey(
    session: Session,
    key: string,
    ask: KeyCall,
    answered: (outcome: KeyOutcome) => void,
    failed: (error: string) => void,
  ): void;
  /** When the lease of this hold ends; undefined if there is no such hold. */
  leaseEnd(key: string, token: string): number | undefined;
  /** A report as one line of JSON. */
  report(ask: ReportRequest, asker: ReportAsker): Promise<string>;
  count(happening: Happening, transport: Transport): void;
}
