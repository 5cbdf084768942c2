import type { Scope } from "../../core/auth/scope.ts";
import type { Effect, ReportRequest } from "../../core/session/effects.ts";
import { gatherCounts } from "../../reports/counts.ts";
import { keyDocument, statsDocument } from "../../reports/stats.ts";
import { nextInOrder, type SequenceNumber } from "../pacing/shared-answers.ts";
import { Turns } from "../pacing/turns.ts";
import { CloudflareService } from "../service/cloudflare-service.ts";
import type { SocketSessionParts } from "./parts.ts";

const MAX_AT_ONCE = 2;
/** All turns together send 8 MiB a second: a client that does not read is cut off before answers fill the memory. */
const CHARS_PER_MS = (8 * 2 ** 20) / 1000 / MAX_AT_ONCE;

/** The reports requested by one client: few run at a time, the others wait in order. */
export class Reports {
  readonly #parts: SocketSessionParts;
  readonly #turns = new Turns({ width: MAX_AT_ONCE, perPause: MAX_AT_ONCE });
  /** Reports made from this moment on count this session. */
  #joinedBy: SequenceNumber | undefined;

  constructor(parts: SocketSessionParts) {
    this.#parts = parts;
  }

  /** Makes a report and gives it to the session, unless it is no longer needed when its turn comes. */
  async make({ id, ask, scope }: Extract<Effect, { readonly type: "report" }>): Promise<void> {
    const { session, runner } = this.#parts;
    const isWanted = () => !session.isOver && session.requests.table.get(id) !== undefined;
    const outcome = await this.#inTurn(ask, scope, isWanted)
      .then((document) => document !== undefined && ({ status: "ok", document } as const))
      .catch(() => ({ status: "error" }) as const);
    if (outcome) runner.run(() => session.requests.reported(id, outcome));
  }

  /** The report as one line of JSON; undefined if it is no longer wanted. */
  #inTurn(request: ReportRequest, scope: Scope | undefined, isWanted: () => boolean): Promise<string | undefined> {
    const asked = nextInOrder();
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    const make = async () => {
      if (!isWanted()) {
        resolve(undefined);
        return;
      }
      const document = await this.#document(request, scope, asked);
      resolve(document);
      // The turn ends when the answer has had time to be sent.
      await scheduler.wait(document.length / CHARS_PER_MS);
    };
    this.#turns.run(make).catch(reject);
    return promise;
  }

  async #document(request: ReportRequest, scope: Scope | undefined, asked: SequenceNumber): Promise<string> {
    const { env, ctx, listing } = this.#parts;
    const service = (since: SequenceNumber) => new CloudflareService(env, (work) => ctx.waitUntil(work), since);
    switch (request.type) {
      case "query":
        return (await keyDocument(service(asked), request.key, { history: false })) ?? "null";
      case "stats":
        await listing.joined;
        this.#joinedBy ??= nextInOrder();
        return statsDocument(service(Math.max(asked, this.#joinedBy)), { scope });
      case "counts":
        await listing.joined;
        return JSON.stringify(await gatherCounts(service(asked)));
    }
  }
}
