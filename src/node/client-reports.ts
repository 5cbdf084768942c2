import type { Scope } from "../core/auth/scope.ts";
import type { Outcome } from "../core/protocols/statuses.ts";
import type { Effect, ReportRequest } from "../core/session/effects.ts";
import { gatherCounts } from "../reports/counts.ts";
import { keyDocument, statsDocument } from "../reports/stats.ts";
import type { Service } from "../service.ts";
import type { SessionHost } from "./session-host.ts";

const MAX_AT_ONCE = 2;
/** Reports of one client leave at 8 MiB a second: one that does not read is cut off before they fill the memory. */
const CHARS_PER_MS = (8 * 2 ** 20) / 1000;

interface Asker {
  /** Whether the client still waits for the report. */
  isWanted(): boolean;
  reported(outcome: Outcome): void;
}

/** The reports that one client asks for on its socket: two are made at a time, the others wait in order. */
export class ClientReports {
  readonly #host: SessionHost;
  readonly #address: string;
  #waiting: (() => Promise<void>)[] = [];
  #atWork = 0;

  constructor(host: SessionHost, address: string) {
    this.#host = host;
    this.#address = address;
  }

  /** Makes a report, unless it is no longer wanted when its turn comes. */
  make({ ask, scope }: Extract<Effect, { readonly type: "report" }>, asker: Asker): void {
    this.#waiting.push(async () => {
      if (!asker.isWanted()) return this.#next();
      const document = await this.#host.report(ask, { scope, address: this.#address }).catch(() => undefined);
      const outcome: Outcome = document === undefined ? { status: "error" } : { status: "ok", document };
      this.#host.batch.enter(() => {
        if (asker.isWanted()) asker.reported(outcome);
      });
      this.#host.after((document?.length ?? 0) / CHARS_PER_MS, () => this.#next());
    });
    if (this.#atWork < MAX_AT_ONCE) this.#start();
  }

  #start(): void {
    const make = this.#waiting.shift();
    if (!make) return;
    this.#atWork += 1;
    void make();
  }

  #next(): void {
    this.#atWork -= 1;
    this.#start();
  }
}

/** Who asks for a report. */
export interface ReportAsker {
  readonly scope: Scope | undefined;
  readonly address: string;
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
