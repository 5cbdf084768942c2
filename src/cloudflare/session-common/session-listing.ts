import { kindOf, type Transport } from "../../core/session-counts.ts";
import { logged } from "../../log.ts";
import type { ClientEntry } from "../../service.ts";
import { directoryOfSession } from "../calls/directories.ts";
import type { SessionAdmission, SessionRefusal } from "../directory/directory-object.ts";
import type { CommonParts } from "./session-parts.ts";

/** A session's entry in the directory, which reports and caps count. No client waits for it, unless a cap is set. */
export class SessionListing {
  readonly #parts: CommonParts;
  #joined: Promise<{ readonly status: SessionAdmission }> = Promise.resolve({ status: "admitted" });

  constructor(parts: CommonParts) {
    this.#parts = parts;
  }

  /** Resolves when the session is listed. */
  get joined(): Promise<unknown> {
    return this.#joined;
  }

  /** Lists the session. Returns the reason if a cap forbids it. */
  async join(entry: Pick<ClientEntry, "address" | "transport" | "label">): Promise<SessionRefusal | undefined> {
    const { ctx, name } = this.#parts;
    const { address, transport, label } = entry;
    this.#joined = this.#directoryFor(address).openSession({ session: name, address, transport, label });
    if (!this.isCapped(transport)) {
      ctx.waitUntil(this.#joined.catch(logged("directory_unreachable")));
      return undefined;
    }
    const { status } = await this.#joined;
    return status === "admitted" ? undefined : status;
  }

  relabel(address: string, label: string): void {
    const { ctx, name } = this.#parts;
    const relabelled = this.#joined.then(() => this.#directoryFor(address).relabel({ session: name, label }));
    ctx.waitUntil(relabelled.catch(logged("directory_unreachable")));
  }

  async leave(address: string): Promise<void> {
    await this.#joined.catch(() => {});
    const { name } = this.#parts;
    await this.#directoryFor(address).closeSession({ session: name }).catch(logged("directory_unreachable"));
  }

  /** A cap counts sessions of this kind. */
  isCapped(transport: Transport): boolean {
    const { maxConnections, maxConnectionsPerIp, httpMaxSessions, httpMaxSessionsPerIp } = this.#parts.config;
    if (kindOf(transport) === "httpSessions") return httpMaxSessions > 0 || httpMaxSessionsPerIp > 0;
    return maxConnections > 0 || maxConnectionsPerIp > 0;
  }

  #directoryFor(address: string) {
    const { env, name } = this.#parts;
    return directoryOfSession(env, { session: name, address });
  }
}
