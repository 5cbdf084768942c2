/** Connections that do as little as possible: one request at a time, one line back. */
import { connect } from "node:net";
import { WebSocket } from "ws";
import type { Transport } from "./options.ts";
import { openRest } from "./rest.ts";

/** A client that takes and gives back locks, one request at a time. */
export interface LockClient {
  /** Resolves with the token of the grant. */
  acquire(key: string, waitSeconds: number): Promise<string>;
  release(key: string, token: string): Promise<void>;
  close(): void;
}

/** A client of the three-line protocol. */
export interface Client extends LockClient {
  /** Sends one request and resolves with its reply, LF included. Rejects if the connection ends first. */
  ask(frame: string): Promise<string>;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export function openLockClient(transport: Transport, address: Address): Promise<LockClient> {
  return transport === "rest" ? openRest(address) : openClient(transport, address);
}

export function openClient(transport: Exclude<Transport, "rest">, address: Address): Promise<Client> {
  return transport === "tcp" ? openTcp(address) : openWebSocket(address);
}

type Ask = (frame: string) => Promise<string>;

function lockClient(ask: Ask, close: () => void): Client {
  return {
    ask,
    close,
    async acquire(key, waitSeconds) {
      const reply = await ask(`l\n${key}\n${waitSeconds}\n`);
      const [status, token] = reply.split(" ");
      if (status !== "ok" || !token) throw new Error(`an acquire was answered ${JSON.stringify(reply)}`);
      return token;
    },
    async release(key, token) {
      const reply = await ask(`r\n${key}\n${token}\n`);
      if (!reply.startsWith("ok")) throw new Error(`a release was answered ${JSON.stringify(reply)}`);
    },
  };
}

/** The one reply that is awaited at any time. */
class Pending {
  #resolve: (line: string) => void = () => {};
  #reject: (error: Error) => void = () => {};

  next(): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  settle(line: string): void {
    this.#resolve(line);
  }

  fail(reason: string): void {
    this.#reject(new Error(reason));
  }
}

function openTcp({ host, port }: Address): Promise<Client> {
  return new Promise((resolve, reject) => {
    const pending = new Pending();
    let received = "";
    const socket = connect({ host, port, noDelay: true });
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => {
      received += text;
      if (!received.endsWith("\n")) return;
      const line = received;
      received = "";
      pending.settle(line);
    });
    socket.once("error", (error) => {
      reject(error);
      pending.fail(error.message);
    });
    socket.once("close", () => pending.fail("the server closed the connection"));
    const ask = (frame: string) => {
      socket.write(frame);
      return pending.next();
    };
    socket.once("connect", () => resolve(lockClient(ask, () => socket.end())));
  });
}

function openWebSocket({ host, port }: Address): Promise<Client> {
  return new Promise((resolve, reject) => {
    const pending = new Pending();
    const socket = new WebSocket(`ws://${host}:${port}/v1/ws`, { perMessageDeflate: false });
    socket.on("message", (line: Buffer) => pending.settle(line.toString("latin1")));
    socket.once("error", (error) => {
      reject(error);
      pending.fail(error.message);
    });
    socket.once("close", () => pending.fail("the server closed the connection"));
    const ask = (frame: string) => {
      socket.send(frame);
      return pending.next();
    };
    socket.once("open", () => resolve(lockClient(ask, () => socket.close())));
  });
}
