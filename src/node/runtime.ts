/** Time and chance. Tests bring their own. */
export interface Runtime {
  /** The service's clock in ms since the epoch: never goes back. */
  now(): number;
  /** Milliseconds by a monotonic clock. */
  elapsed(): number;
  /** Calls back once all input that is there has been taken in. `arrived` counts the commands that were in it. */
  whenQuiet(callback: () => void, arrived: () => number): void;
  /** Calls back after this time, unless the returned function is called before. */
  after(ms: number, callback: () => void): () => void;
  /** As many unpredictable bytes, as hex digits. */
  randomHex(bytes: number): string;
}
