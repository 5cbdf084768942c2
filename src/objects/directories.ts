import type { DirectoryObject } from "./directory.ts";
import type { Env } from "./env.ts";

type DirectoryStub = DurableObjectStub<DirectoryObject>;

/** Fixed for ever: a key's fence mark lives in the shard its name leads to. */
export const SHARDS = 8;

/** The shard that lists this key and keeps its fence mark. */
export function directoryOfKey(env: Env, key: string): DirectoryStub {
  return shard(env, hash(key) % SHARDS);
}

/** The shard that counts the sessions of this client address. */
export function directoryOfAddress(env: Env, address: string): DirectoryStub {
  return shard(env, hash(address) % SHARDS);
}

export function allDirectories(env: Env): DirectoryStub[] {
  return Array.from({ length: SHARDS }, (_, index) => shard(env, index));
}

/** The one directory object that adds up the shards, asked only where a cap is configured. */
export function ledgerOf(env: Env): DirectoryStub {
  return env.DIRECTORY.getByName("ledger");
}

function shard(env: Env, index: number): DirectoryStub {
  return env.DIRECTORY.getByName(`shard-${index}`);
}

/** FNV-1a over UTF-16 code units. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return value;
}
