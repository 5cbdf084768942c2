/** Listeners with a small host behind them that records and answers, and clients that send exact bytes. */
import { connect, type Socket } from "node:net";
import { onTestFinished, vi } from "vitest";
import type { Admission, ArrivalRefusal, Carrier, Clients, Connection } from "../../../src/node/clients.ts";
import { type ListenerOptions, Listeners } from "../../../src/node/listeners/index.ts";
import type { ClientEntry, Credential } from "../../../src/service.ts";

export const HOST = "127.0.0.1";
/** The operating system buffers less than this for a client that does not read. */
export const TOO_MUCH_BYTES = 15 * 2 ** 20;

/** One client as the host sees it. Echoes what it hears. */
export class Guest implements Connection {
  readonly arrival: ClientEntry;
  readonly carrier: Carrier;
  heardText = "";
  signs = 0;
  hasEndedInput = false;
  hasSentTooMuch = false;
  /** The codes of `closed`. */
  readonly ends: number[] = [];
  /** What happens to input. */
  answer: (text: string) => void = (text) => this.carrier.send([text]);

  constructor(arrival: ClientEntry, carrier: Carrier) {
    this.arrival = arrival;
    this.carrier = carrier;
  }

  received(bytes: Uint8Array): void {
    const text = Buffer.from(bytes).toString();
    this.heardText += text;
    this.answer(text);
  }

  heard(): void {
    this.signs += 1;
  }

  inputEnded(): void {
    this.hasEndedInput = true;
  }

  sentTooMuch(): void {
    this.hasSentTooMuch = true;
    this.carrier.close(1009);
  }

  closed(code: number): void {
    this.ends.push(code);
  }
}

/** Lets everybody in, unless told otherwise. */
export class GuestBook implements Clients {
  readonly guests: Guest[] = [];
  readonly credentials: Credential[] = [];
  refusal: ArrivalRefusal | undefined;
  abandoned = 0;

  admit(arrival: ClientEntry): Admission | ArrivalRefusal {
    if (this.refusal) return this.refusal;
    return {
      attach: (carrier) => {
        const guest = new Guest(arrival, carrier);
        this.guests.push(guest);
        return guest;
      },
      abandon: () => {
        this.abandoned += 1;
      },
    };
  }

  async resume(arrival: ClientEntry, credential: Credential): Promise<Admission | ArrivalRefusal> {
    this.credentials.push(credential);
    return this.admit(arrival);
  }
}

/** Opens listeners on free ports. */
export async function openPorts(options: Partial<ListenerOptions> = {}) {
  const clients = new GuestBook();
  const free = { host: HOST, port: 0 };
  const lines: string[] = [];
  const listeners = new Listeners({
    ports: { dflockd: free, http: free, godistlock: free },
    clients,
    peers: undefined,
    fetch: () => new Response("well"),
    tls: undefined,
    caps: { sockets: 100, clients: 0, clientsPerAddress: 0, httpPerAddress: 0 },
    writeTimeoutMs: 1_000,
    readTimeoutMs: 1_000,
    log: (line) => lines.push(line),
    ...options,
  });
  await listeners.open();
  onTestFinished(() => {
    listeners.stopListening();
    listeners.cut();
  });
  const { dflockd: tcp = 0, http = 0, godistlock = 0 } = listeners.ports;
  return { listeners, clients, guests: clients.guests, tcp, http, godistlock, lines };
}

export interface RawClient {
  readonly socket: Socket;
  heard: string;
}

/** Sends exact bytes, and keeps all that it hears. */
export function dial(port: number, words: string | Buffer = "", host = HOST): RawClient {
  const socket = connect({ port, host: HOST, localAddress: host, allowHalfOpen: true }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  const client: RawClient = { socket, heard: "" };
  socket.setEncoding("latin1").on("data", (text: string) => {
    client.heard += text;
  });
  // A server that closes has our answer: the test ends its own side where that matters.
  socket.on("end", () => socket.end());
  if (words.length > 0) socket.write(words);
  return client;
}

export const eventually = (check: () => void, timeout = 4_000) => vi.waitFor(check, { timeout, interval: 10 });

export const becomes = (read: () => unknown, expected: unknown, timeout = 4_000) =>
  vi.waitFor(
    () => {
      const value = read();
      if (JSON.stringify(value) !== JSON.stringify(expected)) throw new Error(`is still ${JSON.stringify(value)}`);
    },
    { timeout, interval: 10 },
  );

export const statusesOf = ({ heard }: RawClient) =>
  [...heard.matchAll(/HTTP\/1\.1 ([0-9]{3})/g)].map(([, status]) => Number(status));
