import { countAnswer } from "../../core/metrics/count.ts";
import type { Performed, Polled } from "./asks.ts";
import type { HttpSessionParts } from "./parts.ts";

/** What becomes of a request or a poll: a reply, or the Worker's end of the poll. */
type Result = Performed | Polled | { readonly type: "parked"; readonly socket: WebSocket };

/** Callers that wait for what becomes of a request, or for its withdrawal, by its id. */
export class Callers {
  readonly #parts: HttpSessionParts;
  readonly #results = new Map<string, ((result: Result) => void)[]>();
  readonly #withdrawals = new Map<string, (() => void)[]>();

  constructor(parts: HttpSessionParts) {
    this.#parts = parts;
  }

  /** Runs a command that makes or polls for a request. */
  result(id: string, command: () => void): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<Result>();
    this.#results.set(id, [...(this.#results.get(id) ?? []), resolve]);
    this.#parts.runner.run(command);
    return promise;
  }

  /** Runs a command that withdraws a request. */
  withdrawal(id: string, command: () => void): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#withdrawals.set(id, [...(this.#withdrawals.get(id) ?? []), resolve]);
    this.#parts.runner.run(command);
    return promise;
  }

  resolve(id: string, result: Result): void {
    if (result.type === "answered") countAnswer(this.#parts.meter, result.outcome.status);
    for (const resolve of this.#results.get(id) ?? []) resolve(result);
    this.#results.delete(id);
  }

  withdrawn(id: string): void {
    for (const resolve of this.#withdrawals.get(id) ?? []) resolve();
    this.#withdrawals.delete(id);
  }
}
