import { logged } from "../../log.ts";
import type { ClientEntry } from "../../service.ts";
import { directoryOfAddress } from "../calls/directories.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { CommonParts } from "../session-common/session-parts.ts";

/** A session's place in the directory. */
export class Listing {
  readonly #parts: CommonParts;
  #joined: Promise<SessionAdmission> = Promise.resolve("admitted");

  constructor(parts: CommonParts) {
    this.#parts = parts;
  }

  /** Resolves when the session is listed. */
  get joined(): Promise<unknown> {
    return this.#joined;
  }

  /** Lists the session. Returns the reason if a cap forbids it. */
  async join({ address, transport, label }: ClientEntry): Promise<string | undefined> {
    const { env, config, name } = this.#parts;
    this.#joined = directoryOfAddress(env, address).openSession(name, address, transport, label);
    if (config.maxConnections === 0 && config.maxConnectionsPerIp === 0) {
      this.#joined.catch(logged("directory_unreachable"));
      return undefined;
    }
    const admission = await this.#joined;
    return admission === "admitted" ? undefined : admission;
  }

  async leave(address: string): Promise<void> {
    await this.#joined.catch(() => {});
    const { env, name } = this.#parts;
    await directoryOfAddress(env, address).closeSession(name).catch(logged("directory_unreachable"));
  }
}
