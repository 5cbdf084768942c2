import type { Effect, ReportRequest } from "../../core/session/effects.ts";
import { ReportQueue, reportFor } from "../../reports/report-queue.ts";
import { nextInOrder, type SequenceNumber } from "../pacing/shared-answers.ts";
import { within } from "../pacing/within.ts";
import { CloudflareService } from "../service/cloudflare-service.ts";
import type { SocketSessionParts } from "./parts.ts";

/** A report does not wait longer for the session's own entry in the directory. */
const LISTED_WITHIN_MS = 2_000;

/** The reports requested by one client. */
export class Reports {
  readonly #parts: SocketSessionParts;
  readonly #queue = new ReportQueue((ms, callback) => void scheduler.wait(ms).then(callback));
  /** Reports made from this moment on count this session. */
  #joinedBy: SequenceNumber | undefined;

  constructor(parts: SocketSessionParts) {
    this.#parts = parts;
  }

  /** Makes a report and gives it to the session, unless it is no longer needed when its turn comes. */
  make({ id, ask, scope }: Extract<Effect, { readonly type: "report" }>): void {
    const { session, runner } = this.#parts;
    const asked = nextInOrder();
    this.#queue.add({
      isWanted: () => !session.isOver && session.requests.table.get(id) !== undefined,
      make: async () => reportFor(await this.#serviceFor(ask, asked), ask, { scope, address: undefined }),
      made: (outcome) => runner.run(() => session.requests.reported(id, outcome)),
    });
  }

  async #serviceFor({ type }: ReportRequest, asked: SequenceNumber): Promise<CloudflareService> {
    const { env, ctx, listing } = this.#parts;
    const serviceSince = (since: SequenceNumber) => new CloudflareService(env, (work) => ctx.waitUntil(work), since);
    if (type === "query") return serviceSince(asked);
    await within(LISTED_WITHIN_MS, listing.joined);
    this.#joinedBy ??= nextInOrder();
    return serviceSince(Math.max(asked, this.#joinedBy));
  }
}
