/** Locks in Redis as its documentation describes them: SET with NX and PX, and a script that deletes only one's own. */
import { randomBytes } from "node:crypto";
import { type Address, Channel, type Framing } from "./channel.ts";
import type { LockClient } from "./client.ts";

const LEASE_MS = 33_000;
/** Redis has no queue: a client that finds the lock taken tries again. Libraries wait 100 to 200 ms by default. */
export const RETRY_MS = 10;
const RELEASE = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

const RESP: Framing = { wrap: (request) => request, lengthOf: replyLength, unwrap: (reply) => reply };

export async function openRedis(address: Address): Promise<LockClient> {
  const channel = await Channel.open(address, RESP);
  const script = /^\$\d+\r\n(\w+)\r\n$/.exec(await channel.asked(encodeRequest(["SCRIPT", "LOAD", RELEASE])))?.[1];
  if (!script) throw new Error("Redis did not load the script");
  // A token of this client and a number is as unique as a random one, and costs nothing to make.
  const name = randomBytes(12).toString("hex");
  let acquired = 0;
  return {
    acquire(key, granted) {
      const token = name + String(acquired++).padStart(8, "0");
      const request = encodeRequest(["SET", key, token, "NX", "PX", String(LEASE_MS)]);
      const answered = (reply: string) => {
        if (reply === "+OK\r\n") granted(token);
        else if (reply === "$-1\r\n") setTimeout(() => channel.ask(request, answered), RETRY_MS);
        else throw new Error(`an acquire was answered ${reply}`);
      };
      channel.ask(request, answered);
    },
    release(key, token, released) {
      channel.ask(encodeRequest(["EVALSHA", script, "1", key, token]), (reply) => {
        if (reply !== ":1\r\n") throw new Error(`a release was answered ${reply}`);
        released();
      });
    },
    close: async () => channel.close(),
  };
}

/** A request in RESP: an array of bulk strings of ASCII. */
export function encodeRequest(words: readonly string[]): string {
  let text = `*${words.length}\r\n`;
  for (const word of words) text += `$${word.length}\r\n${word}\r\n`;
  return text;
}

/** Length of the first whole reply; 0 while some of it is missing. Knows what Redis answers to these commands. */
export function replyLength(text: string): number {
  const end = text.indexOf("\r\n") + 2;
  if (end === 1) return 0;
  if (text[0] !== "$" || text[1] === "-") return end;
  const total = end + Number(text.slice(1, end - 2)) + 2;
  return text.length < total ? 0 : total;
}
