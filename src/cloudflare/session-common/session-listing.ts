import { kindOf, type Transport } from "../../core/session-counts.ts";
import { logged } from "../../log.ts";
import type { ClientEntry } from "../../service.ts";
import { admission } from "../calls/admission.ts";
import { directoryOfSession } from "../calls/directories.ts";
import type { SessionAdmission, SessionRefusal } from "../directory/directory-object.ts";
import type { CommonParts } from "./session-parts.ts";

/** Pauses before a listing that failed is made again. A deploy resets the directory, which takes a moment. */
const RETRY_PAUSES_MS = [200, 1_000, 5_000, 20_000];

type Entry = Pick<ClientEntry, "address" | "transport" | "label">;

/** A session's entry in the directory, which reports and caps count. No client waits for it, unless a cap is set. */
export class SessionListing {
  readonly #parts: CommonParts;
  /** The call that lists the session has been answered, or has failed for good. */
  #joined: Promise<unknown> = Promise.resolve();
  readonly #left = new AbortController();

  constructor(parts: CommonParts) {
    this.#parts = parts;
  }

  /** Resolves when the session is listed, or cannot be. */
  get joined(): Promise<unknown> {
    return this.#joined;
  }

  /** Lists the session. Returns the reason if a cap forbids it. */
  async join(entry: Entry): Promise<SessionRefusal | undefined> {
    if (!this.isCapped(entry.transport)) {
      this.#joined = this.#list(entry);
      this.#parts.ctx.waitUntil(this.#joined);
      return undefined;
    }
    const asked = admission(this.#open(entry));
    this.#joined = asked.catch(() => {});
    const { status } = await asked;
    return status === "admitted" ? undefined : status;
  }

  relabel(address: string, label: string): void {
    const { ctx, name } = this.#parts;
    const relabelled = this.#joined.then(() => this.#directoryFor(address).relabel({ session: name, label }));
    ctx.waitUntil(relabelled.catch(logged("directory_unreachable")));
  }

  async leave(address: string): Promise<void> {
    this.#left.abort();
    await this.#joined;
    const { name } = this.#parts;
    await this.#directoryFor(address).closeSession({ session: name }).catch(logged("directory_unreachable"));
  }

  /** A cap counts sessions of this kind. */
  isCapped(transport: Transport): boolean {
    const { maxConnections, maxConnectionsPerIp, httpMaxSessions, httpMaxSessionsPerIp } = this.#parts.config;
    if (kindOf(transport) === "httpSessions") return httpMaxSessions > 0 || httpMaxSessionsPerIp > 0;
    return maxConnections > 0 || maxConnectionsPerIp > 0;
  }

  /** Lists the session, in several attempts if need be, unless it leaves meanwhile. */
  async #list(entry: Entry): Promise<void> {
    const { signal } = this.#left;
    for (const pauseMs of [...RETRY_PAUSES_MS, undefined]) {
      try {
        await this.#open(entry);
        return;
      } catch (error) {
        logged("directory_unreachable")(error);
      }
      if (pauseMs !== undefined) await scheduler.wait(pauseMs, { signal }).catch(() => {});
      if (signal.aborted) return;
    }
  }

  #open({ address, transport, label }: Entry): Promise<{ readonly status: SessionAdmission }> {
    return this.#directoryFor(address).openSession({ session: this.#parts.name, address, transport, label });
  }

  #directoryFor(address: string) {
    const { env, name } = this.#parts;
    return directoryOfSession(env, { session: name, address });
  }
}
