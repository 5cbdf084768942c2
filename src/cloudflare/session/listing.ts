import { logged } from "../../log.ts";
import type { ClientEntry } from "../../service.ts";
import { directoryOfAddress } from "../calls/directories.ts";
import type { SessionAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import type { SessionParts } from "../session-common/session-parts.ts";

/** A session's place in the directory. */
export class Listing {
  readonly #env: Env;
  readonly #own: SessionParts;
  #joined: Promise<SessionAdmission> = Promise.resolve("admitted");

  constructor(env: Env, own: SessionParts) {
    this.#env = env;
    this.#own = own;
  }

  /** Resolves when the session is listed. */
  get joined(): Promise<unknown> {
    return this.#joined;
  }

  /** Lists the session. Returns the reason if a cap forbids it. */
  async join({ address, transport, label }: ClientEntry): Promise<string | undefined> {
    const { config, session } = this.#own;
    const directory = directoryOfAddress(this.#env, address);
    this.#joined = directory.openSession(session, address, transport, label);
    if (config.maxConnections === 0 && config.maxConnectionsPerIp === 0) {
      this.#joined.catch(logged("directory_unreachable"));
      return undefined;
    }
    const admission = await this.#joined;
    return admission === "admitted" ? undefined : admission;
  }

  async leave(address: string): Promise<void> {
    await this.#joined.catch(() => {});
    const directory = directoryOfAddress(this.#env, address);
    await directory.closeSession(this.#own.session).catch(logged("directory_unreachable"));
  }
}
