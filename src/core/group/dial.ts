/** What connections between deployments need of their host. */

/** Time, as connections see it. */
export interface Clock {
  /** In ms; never goes back. */
  now(): number;
  /** Calls back after this time, unless the returned function is called before. */
  after(ms: number, callback: () => void): () => void;
}

/** A connection that we have dialled. Neither call throws, also after its end. */
export interface Carrier {
  send(text: string): void;
  close(): void;
}

/** What becomes of a connection. Nothing of it is told before `Dial` has returned. */
export interface DialEvents {
  /** Lines may be sent from now on. */
  opened(): void;
  received(bytes: Uint8Array): void;
  /** It has ended, or was never opened. */
  closed(): void;
}

export interface DialTarget {
  /** `tcp:`, `ws:` or `wss:`. */
  readonly url: string;
  /** Shown at the upgrade of a WebSocket, as a bearer. */
  readonly token: string;
}

/** Begins to open a connection to another deployment. Throws if the address cannot be used at all. */
export type Dial = (target: DialTarget, events: DialEvents) => Carrier;

/** Takes the outcome of a call, once, at once or later. */
export interface Continuation<Value> {
  done(value: Value): void;
  failed(error: unknown): void;
}
