import { type IncomingCarrier, IncomingConnection, type IncomingHost } from "../../core/group/incoming-connection.ts";
import type { Batch } from "../batch.ts";
import type { Admission, Carrier, Connection, PeerArrival, Peers } from "../clients.ts";
import type { Inputs } from "../input.ts";

/** A fault of ours has cost the connection. */
const FAULT = 1012;
const NOTHING = new Uint8Array(0);

/** The connections that other deployments have opened. Their lines are commands of the batch. */
export class IncomingPeers implements Peers {
  readonly #inputs: Inputs;
  readonly #host: IncomingHost;
  readonly #left: (peer: string) => void;
  readonly #open = new Set<IncomingConnection>();

  /** `left` is told, in the batch, that the last connection of a peer has ended. */
  constructor(inputs: Inputs, host: IncomingHost, left: (peer: string) => void) {
    this.#inputs = inputs;
    this.#host = host;
    this.#left = left;
  }

  admit({ isKnown, hasWindow }: PeerArrival): Admission {
    return {
      attach: (carrier) => this.#attach(carrier, { isKnown, hasWindow }),
      abandon: () => {},
    };
  }

  /** Sends nothing more to peers. */
  stop(): void {
    for (const connection of this.#open) connection.closed();
    this.#open.clear();
  }

  #attach(carrier: Carrier, { isKnown, hasWindow }: Pick<PeerArrival, "isKnown" | "hasWindow">): Connection {
    const output = new Output(this.#inputs.batch, carrier);
    const snapshot = { state: { phase: isKnown ? "known" : "unknown" } as const, partial: NOTHING, hasWindow };
    const connection = new IncomingConnection(this.#host, output, snapshot);
    this.#open.add(connection);
    return this.#inputs.open({
      isCurrent: () => this.#open.has(connection),
      // A peer that asks more than we can answer is cut off.
      isBehind: () => false,
      pause: () => carrier.pause(),
      resume: () => carrier.resume(),
      take: (bytes) => {
        output.closeIfFailed();
        if (bytes.length > 0) connection.received(bytes);
        else connection.inputEnded();
      },
      heard: () => {},
      sentTooMuch: () => connection.sentTooMuch(),
      closed: () => this.#closed(connection),
    });
  }

  /** Preliminary holds end with the last connection of their deployment. */
  #closed(connection: IncomingConnection): void {
    const { peer } = connection;
    connection.closed();
    this.#open.delete(connection);
    if (peer !== undefined && ![...this.#open].some((other) => other.peer === peer)) this.#left(peer);
  }
}

/** Holds back what is said to another deployment until everything it depends on is durable. */
class Output implements IncomingCarrier {
  readonly #batch: Batch;
  readonly #carrier: Carrier;
  #unsent: string[] = [];
  /** The number of the batch whose failure closes the connection. */
  #lastBatch = -1;

  constructor(batch: Batch, carrier: Carrier) {
    this.#batch = batch;
    this.#carrier = carrier;
  }

  send(line: string): void {
    this.closeIfFailed();
    if (this.#unsent.length === 0)
      this.#batch.afterwards(() => {
        const lines = this.#unsent;
        this.#unsent = [];
        this.#carrier.send(lines);
      });
    this.#unsent.push(line);
  }

  acknowledge(frame: Uint8Array): void {
    this.#batch.afterwards(() => this.#carrier.acknowledge(frame));
  }

  close(code: number): void {
    this.#batch.afterwards(() => this.#carrier.close(code));
  }

  save(): void {}

  /** If this batch fails, answers are lost, and perhaps questions: the other deployment has to know that. */
  closeIfFailed(): void {
    if (this.#lastBatch === this.#batch.number) return;
    this.#lastBatch = this.#batch.number;
    this.#batch.afterwards(
      () => {},
      () => {
        this.#unsent = [];
        this.#carrier.close(FAULT);
      },
    );
  }
}
