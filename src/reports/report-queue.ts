import type { Scope } from "../core/auth/scope.ts";
import type { Outcome } from "../core/protocols/statuses.ts";
import type { ReportRequest } from "../core/session/effects.ts";
import type { Service } from "../service.ts";
import { gatherCounts } from "./counts.ts";
import { keyDocument, statsDocument } from "./stats.ts";

const MAX_AT_ONCE = 2;
/** With so many waiting, those that were cancelled are looked for: a client may ask and cancel without end. */
const SWEEP_AT = 2_048;
/** Reports of one client leave at 8 MiB a second: one that does not read is cut off before they fill the memory. */
const CHARS_PER_MS = (8 * 2 ** 20) / 1000 / MAX_AT_ONCE;

/** A report that a client asks for on its socket. */
export interface WantedReport {
  /** Whether the client still waits for it. */
  isWanted(): boolean;
  /** The report as one line of JSON. */
  make(): Promise<string>;
  made(outcome: Outcome): void;
}

/** The reports that one client asks for: two are made at a time, the others wait in order. */
export class ReportQueue {
  readonly #after: (ms: number, callback: () => void) => void;
  #waiting: WantedReport[] = [];
  #sweepAt = SWEEP_AT;
  #running = 0;

  constructor(after: (ms: number, callback: () => void) => void) {
    this.#after = after;
  }

  /** Makes a report, unless it is no longer wanted when its turn comes. */
  add(report: WantedReport): void {
    this.#waiting.push(report);
    if (this.#waiting.length >= this.#sweepAt) {
      this.#waiting = this.#waiting.filter((each) => each.isWanted());
      this.#sweepAt = SWEEP_AT + 2 * this.#waiting.length;
    }
    this.#startNext();
  }

  #startNext(): void {
    while (this.#running < MAX_AT_ONCE) {
      const report = this.#waiting.shift();
      if (!report) return;
      if (!report.isWanted()) continue;
      this.#running += 1;
      void this.#run(report);
    }
  }

  async #run({ make, made }: WantedReport): Promise<void> {
    const document = await make().catch(() => undefined);
    made(document === undefined ? { status: "error" } : { status: "ok", document });
    // The turn ends when the report has had time to be sent.
    this.#after((document?.length ?? 0) / CHARS_PER_MS, () => {
      this.#running -= 1;
      this.#startNext();
    });
  }
}

/** Who asks for a report. */
export interface ReportAsker {
  readonly scope: Scope | undefined;
  /** Undefined if the host bounds reports in another way. */
  readonly address: string | undefined;
}

/** A report as one line of JSON. */
export async function reportFor(service: Service, ask: ReportRequest, asker: ReportAsker): Promise<string> {
  switch (ask.type) {
    case "query":
      return (await keyDocument(service, ask.key, { history: false })) ?? "null";
    case "stats":
      return statsDocument(service, asker);
    case "counts":
      return service.share("counts", async () => JSON.stringify(await gatherCounts(service)), asker.address);
  }
}
