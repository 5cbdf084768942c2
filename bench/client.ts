/** Connections that do as little as possible: one request at a time, one line back. */
import { connect } from "node:net";
import { WebSocket } from "ws";
import type { Transport } from "./options.ts";

export interface Client {
  /** Sends one request and resolves with its reply, LF included. Rejects if the connection ends first. */
  ask(frame: string): Promise<string>;
  close(): void;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

export function openClient(transport: Transport, address: Address): Promise<Client> {
  return transport === "tcp" ? openTcp(address) : openWebSocket(address);
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
    socket.once("connect", () =>
      resolve({
        ask(frame) {
          socket.write(frame);
          return pending.next();
        },
        close: () => socket.end(),
      }),
    );
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
    socket.once("open", () =>
      resolve({
        ask(frame) {
          socket.send(frame);
          return pending.next();
        },
        close: () => socket.close(),
      }),
    );
  });
}
