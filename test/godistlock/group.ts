/** A group of real servers that relay to each other, and clients of them. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../cli/support.ts";
import type { Host } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { type Speaker, speakTo } from "./speaker.ts";

export class Group implements AsyncDisposable {
  readonly servers: readonly TestServer[];

  private constructor(servers: readonly TestServer[]) {
    this.servers = servers;
  }

  /** A server on each of these hosts. */
  static async start(...hosts: readonly Host[]): Promise<Group> {
    const relayPorts = await Promise.all(hosts.map(freePort));
    const list = relayPorts.map((port, index) => `s${index}=tcp://127.0.0.1:${port}`).join(",");
    const variables = { RELAY_PEERS: list, RELAY_TOKEN: "a-token-of-the-group" };
    const starting = hosts.map((host, index) => {
      const relayPort = relayPorts[index] as number;
      return host.start({ variables: { ...variables, RELAY_ID: `s${index}` }, relayPort });
    });
    return new Group(await Promise.all(starting));
  }

  at(index: number): TestServer {
    return this.servers[index] as TestServer;
  }

  async client(index: number): Promise<GroupClient> {
    return new GroupClient(await speakTo({ port: this.at(index).godistlockPort }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
  }
}

/** A client that sends one request at a time. */
export class GroupClient {
  readonly #speaker: Speaker;
  #nonce = 0;

  constructor(speaker: Speaker) {
    this.#speaker = speaker;
  }

  /** The reply to a request, without its nonce. */
  async ask(request: string, withinMs = 10_000): Promise<string> {
    return this.answer(this.send(request), withinMs);
  }

  send(request: string): string {
    this.#nonce += 1;
    const nonce = `n${this.#nonce}`;
    this.#speaker.send(new TextEncoder().encode(`${request} ${nonce}\n`));
    return nonce;
  }

  async answer(nonce: string, withinMs = 10_000): Promise<string> {
    const arrival = await this.#speaker.inbox.take(withinMs);
    assert.ok(arrival?.kind === "line", `a reply, not ${JSON.stringify(arrival)}`);
    const [keyword, ofNonce, ...rest] = arrival.line.split(" ");
    assert.equal(ofNonce, nonce);
    return [keyword, ...rest].join(" ");
  }

  close(): void {
    this.#speaker.close();
  }
}

/** The fence of a `GIVE`. */
export function given(reply: string): bigint {
  const [, fence] = /^GIVE ([0-9]+)$/.exec(reply) ?? [];
  assert.ok(fence, `GIVE, not ${reply}`);
  return BigInt(fence);
}

/** What a server may say of a lock under this fence. A majority has agreed to it; the others need not know the fence. */
export const takenUnder = (fence: bigint) => [`LOCK ${fence}`, "LOCK 0"];

export { sleep };
