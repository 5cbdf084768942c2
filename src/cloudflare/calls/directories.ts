import { hash } from "../../core/hash.ts";
import type { Labels } from "../../core/key/history.ts";
import { kindOfSession, sessionlessProtocolOf } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import type { DirectoryObject } from "../directory/directory-object.ts";
import { configOf, type PartialEnv } from "../env.ts";
import { within } from "../pacing/within.ts";
import { objectsOf } from "../placement.ts";

type DirectoryStub = DurableObjectStub<DirectoryObject>;

/** Must not change: entries in shards that are no longer asked would be missing from reports and caps. See ADR 5. */
export const SHARDS = 8;

/** Larger queries are split into parts of this size. */
const SESSIONS_AT_ONCE = 10_000;
/** Labels are not worth a longer wait. */
const ANSWERS_WITHIN_MS = 2_000;

/** The shard that lists this key. */
export function directoryOfKey(env: PartialEnv, key: string): DirectoryStub {
  return shard(env, hash(key) % SHARDS);
}

/**
 * The shard that counts a session. With a cap per address, one shard counts all sessions of an address; otherwise names
 * spread them evenly, however many share an address. A session whose shard changes with that setting is probed by its old
 * one, and removed when it is gone.
 */
export function directoryOfSession(
  env: PartialEnv,
  { session, address }: { session: string; address: string },
): DirectoryStub {
  const { maxConnectionsPerIp, httpMaxSessionsPerIp } = configOf(env);
  const cap = kindOfSession(session) === "httpSessions" ? httpMaxSessionsPerIp : maxConnectionsPerIp;
  return shard(env, hash(cap > 0 ? address : session) % SHARDS);
}

export function allDirectories(env: PartialEnv): DirectoryStub[] {
  return Array.from({ length: SHARDS }, (_, index) => shard(env, index));
}

/** Groups keys by the shard that lists them. */
export function byDirectory(env: PartialEnv, keys: readonly string[]): { directory: DirectoryStub; keys: string[] }[] {
  const groups = new Map<number, string[]>();
  for (const key of keys) {
    const index = hash(key) % SHARDS;
    const group = groups.get(index);
    if (group) group.push(key);
    else groups.set(index, [key]);
  }
  return Array.from(groups, ([index, group]) => ({ directory: shard(env, index), keys: group }));
}

/** The labels of these sessions, without those of shards that do not answer. Asks all shards, because a session's name alone does not tell its shard. */
export async function labelsOf(env: PartialEnv, sessions: Iterable<string>): Promise<Labels> {
  const names = [...new Set(sessions)].filter((name) => !sessionlessProtocolOf(name));
  const labels: Record<string, string> = {};
  for (let start = 0; start < names.length; start += SESSIONS_AT_ONCE) {
    const part = names.slice(start, start + SESSIONS_AT_ONCE);
    const answers = await Promise.all(
      allDirectories(env).map((directory) =>
        within(ANSWERS_WITHIN_MS, directory.labelsOf({ sessions: part })).catch(logged("directory_unreachable")),
      ),
    );
    for (const answer of answers) Object.assign(labels, answer?.labels);
  }
  return labels;
}

/** The one directory object that adds up the shards. Used only if a cap is configured. */
export function ledgerOf(env: PartialEnv): DirectoryStub {
  return objectsOf(env, "DIRECTORY").getByName("ledger");
}

function shard(env: PartialEnv, index: number): DirectoryStub {
  return objectsOf(env, "DIRECTORY").getByName(`shard-${index}`);
}
