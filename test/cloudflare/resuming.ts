/** Sessions that outlive their sockets, as the objects see them. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { openSession, resumeSession } from "../../src/cloudflare/transports/session.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";
import type { ClientEntry, Credential } from "../../src/service.ts";
import { Client, sessionStub } from "./support.ts";

export const ENTRY: ClientEntry = {
  protocol: "dflockd",
  transport: "ws",
  address: "127.0.0.1",
  isAuthenticated: true,
  rights: ALL_BUT_ADMIN,
  hasWindow: false,
};
const ADMIN: ClientEntry = { ...ENTRY, rights: { ...ALL_BUT_ADMIN, isAdmin: true } };

export interface Resumable {
  readonly client: Client;
  readonly credential: Credential;
}

/** A client whose session outlives its socket; an administrator's, who may steal. */
export async function resumable(): Promise<Resumable> {
  const client = await Client.on(openSession(env, ADMIN));
  const [, session = "", secret = ""] =
    /^@s ok ([0-9a-f]{64})\.([0-9a-f]{32}) 10$/.exec(await client.ask("@s session\n_\nresume\n")) ?? [];
  return { client, credential: { session, secret } };
}

export const plain = () => Client.on(openSession(env, ADMIN));

/** The client is back on another socket. */
export const resume = (credential: Credential) => Client.on(resumeSession(env, ADMIN, credential));

/** Takes the client's socket away, but not its session. */
export async function cut(client: Client): Promise<void> {
  client.close(4412);
  await client.closed();
}

/** The session's object loses all it had in memory. */
export async function crash({ session }: Credential): Promise<void> {
  await runInDurableObject(sessionStub(session), (_, state) => state.abort("crash")).catch(() => {});
}

/** What a session has stored beside the keys it has used. */
export async function storedIn(session: string): Promise<string[]> {
  return runInDurableObject(sessionStub(session), (_, { storage }) => [...storage.kv.list()].map(([name]) => name));
}
