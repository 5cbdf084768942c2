/** Locks in Redis as its documentation describes them: SET with NX and PX, and a script that deletes only one's own. */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import type { Address, LockClient } from "../client.ts";

const LEASE_MS = 33_000;
/** Redis has no queue: a client that finds the lock taken tries again. Libraries wait 100 to 200 ms by default. */
export const RETRY_MS = 10;
const RELEASE = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

export async function openRedis(address: Address): Promise<LockClient> {
  const connection = await RespConnection.open(address);
  const script = String(await connection.ask("SCRIPT", "LOAD", RELEASE));
  return {
    async acquire(key, waitSeconds) {
      const token = randomBytes(16).toString("hex");
      const until = performance.now() + waitSeconds * 1000;
      while ((await connection.ask("SET", key, token, "NX", "PX", String(LEASE_MS))) !== "OK") {
        if (performance.now() >= until) throw new Error("an acquire timed out");
        await pause(RETRY_MS);
      }
      return token;
    },
    async release(key, token) {
      if ((await connection.ask("EVALSHA", script, "1", key, token)) !== 1) throw new Error("a release found no lock");
    },
    close: () => connection.close(),
  };
}

type Reply = string | number | null;

/** A request in RESP: an array of bulk strings. */
export function encodeRequest(words: readonly string[]): string {
  return `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;
}

/** A whole reply in RESP; undefined while some of it is missing. Only what Redis answers to these commands is understood. */
export function decodeReply(text: string): Reply | Error | undefined {
  const end = text.indexOf("\r\n");
  if (end < 0) return undefined;
  const line = text.slice(1, end);
  switch (text[0]) {
    case "+":
      return line;
    case "-":
      return new Error(line);
    case ":":
      return Number(line);
    case "$": {
      const length = Number(line);
      if (length < 0) return null;
      return text.length < end + length + 4 ? undefined : text.slice(end + 2, end + 2 + length);
    }
    default:
      return new Error(`unknown reply ${JSON.stringify(text)}`);
  }
}

/** One request at a time. */
class RespConnection {
  readonly #socket: Socket;
  #received = "";
  #pending = Promise.withResolvers<Reply>();

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#pending.promise.catch(() => {});
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#take(text));
    socket.on("error", (error) => this.#pending.reject(error));
    socket.on("close", () => this.#pending.reject(new Error("the server closed the connection")));
  }

  static open({ host, port }: Address): Promise<RespConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RespConnection(socket)));
    });
  }

  ask(...words: readonly string[]): Promise<Reply> {
    this.#pending = Promise.withResolvers<Reply>();
    this.#socket.write(encodeRequest(words));
    return this.#pending.promise;
  }

  close(): void {
    this.#socket.end();
  }

  #take(text: string): void {
    this.#received += text;
    const reply = decodeReply(this.#received);
    if (reply === undefined) return;
    this.#received = "";
    if (reply instanceof Error) this.#pending.reject(reply);
    else this.#pending.resolve(reply);
  }
}
