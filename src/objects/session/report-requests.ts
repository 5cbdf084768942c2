import type { Scope } from "../../auth/scope.ts";
import type { Request } from "../../protocols/wire/requests.ts";
import { momentNow } from "../pacing/shared-answers.ts";
import { Turns } from "../pacing/turns.ts";
import type { Fate } from "../session-common/operations.ts";
import type { ConversationHost } from "./conversation-host.ts";

export type ReportRequest = Extract<Request, { type: "stats" | "query" }>;

const MAX_AT_ONCE = 2;
/** All turns together send 8 MiB a second: a client that does not read is cut off before answers fill the memory. */
const CHARS_PER_MS = (8 * 2 ** 20) / 1000 / MAX_AT_ONCE;

/** The reports requested by one client: few run at a time, the others wait in order. */
export class Reports {
  readonly #host: ConversationHost;
  readonly #turns = new Turns({ width: MAX_AT_ONCE, perPause: MAX_AT_ONCE });

  constructor(host: ConversationHost) {
    this.#host = host;
  }

  /** Makes a report, unless `isWanted` says that it is no longer needed when its turn comes. */
  answer(request: ReportRequest, scope: Scope | undefined, isWanted: () => boolean): Promise<Fate> {
    const asked = momentNow();
    return new Promise((resolve, reject) => {
      const make = async () => {
        if (!isWanted()) {
          resolve({ type: "dropped" });
          return;
        }
        const document = await (request.type === "query"
          ? this.#host.query(request.key, asked)
          : this.#host.stats(scope, asked));
        resolve({ type: "answered", outcome: { status: "ok", document } });
        // The turn ends when the answer has had time to be sent.
        await scheduler.wait(document.length / CHARS_PER_MS);
      };
      this.#turns.run(make).catch(reject);
    });
  }
}
