/** What a load process can be asked to do, and what it answers. */
import type { Address } from "./channel.ts";
import type { Transport } from "./client.ts";

/** `own`: each client cycles on a key of its own; `hot`: all of them on one key; `fresh`: each cycle on a new key. */
export type Pattern = "own" | "hot" | "fresh";

/** Works: clients that connect, cycle for a while and leave; connections that stay; keys that are held; clients of the library. */
export interface Works {
  cycles: {
    ask: {
      readonly transport: Transport;
      readonly address: Address;
      readonly pattern: Pattern;
      readonly clients: number;
      /** Time before `ms` that does not count. */
      readonly leadInMs: number;
      readonly ms: number;
    };
    answer: Turn;
  };
  connect: {
    ask: {
      readonly transport: "tcp" | "ws";
      readonly address: Address;
      readonly count: number;
      readonly atOnce: number;
    };
    /** Time until every connection has had its first answer. */
    answer: { readonly seconds: number };
  };
  hold: {
    ask: {
      readonly address: Address;
      readonly keys: number;
      readonly connections: number;
      readonly leaseSeconds: number;
    };
    answer: undefined;
  };
  join: {
    ask: { readonly url: string; readonly holders: number; readonly waiters: number; readonly atOnce: number };
    answer: { readonly seconds: number };
  };
  /** Watches the clients that have joined come back after a crash, which is about to happen. */
  return: {
    ask: { readonly patienceMs: number };
    /** When each came back, in milliseconds of the system's clock, and what they have lost. */
    answer: { readonly backAt: readonly number[]; readonly lost: number; readonly held: number };
  };
}

/** Of one turn. Times in milliseconds. */
export interface Turn {
  /** Of the cycles that ended within the measured time. */
  readonly cycles: Float64Array;
  /** From the sending of a release to the grant of a client that was waiting by then. */
  readonly handOvers: Float64Array;
  /** The measured time. */
  readonly seconds: number;
  /** All cycles, those before and after the measured time included. */
  readonly cyclesRun: number;
  /** Share of the time in which the load process was busy. Near 1 it is the limit, not the server. */
  readonly busy: number;
}

export type Work = keyof Works;
export type Ask<W extends Work = Work> = { [K in W]: { readonly work: K } & Works[K]["ask"] }[W];
export type Answer<W extends Work = Work> = Works[W]["answer"];
