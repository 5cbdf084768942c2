import type { Scope } from "../../auth/scope.ts";
import { gatherCounts } from "../../reports/counts.ts";
import { keyDocument, statsDocument } from "../../reports/stats.ts";
import type { ReportRequest } from "../../session/effects.ts";
import type { Env } from "../env.ts";
import { nextInOrder, type SequenceNumber } from "../pacing/shared-answers.ts";
import { Turns } from "../pacing/turns.ts";

const MAX_AT_ONCE = 2;
/** All turns together send 8 MiB a second: a client that does not read is cut off before answers fill the memory. */
const CHARS_PER_MS = (8 * 2 ** 20) / 1000 / MAX_AT_ONCE;

/** The reports requested by one client: few run at a time, the others wait in order. */
export class Reports {
  readonly #env: Env;
  readonly #turns = new Turns({ width: MAX_AT_ONCE, perPause: MAX_AT_ONCE });
  /** Reports made from this moment on count this session. */
  #joinedBy: SequenceNumber | undefined;

  constructor(env: Env) {
    this.#env = env;
  }

  /**
   * Makes a report as one line of JSON; undefined if `isWanted` says that it is no longer needed when its turn comes.
   * `joined` resolves when the session is listed.
   */
  make(
    request: ReportRequest,
    scope: Scope | undefined,
    isWanted: () => boolean,
    joined: Promise<unknown>,
  ): Promise<string | undefined> {
    const asked = nextInOrder();
    const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
    const make = async () => {
      if (!isWanted()) {
        resolve(undefined);
        return;
      }
      const document = await this.#document(request, scope, asked, joined);
      resolve(document);
      // The turn ends when the answer has had time to be sent.
      await scheduler.wait(document.length / CHARS_PER_MS);
    };
    this.#turns.run(make).catch(reject);
    return promise;
  }

  async #document(
    request: ReportRequest,
    scope: Scope | undefined,
    asked: SequenceNumber,
    joined: Promise<unknown>,
  ): Promise<string> {
    switch (request.type) {
      case "query":
        return this.#key(request.key, asked);
      case "stats":
        return this.#stats(scope, asked, joined);
      case "counts":
        await joined;
        return JSON.stringify(await gatherCounts(this.#env));
    }
  }

  async #stats(scope: Scope | undefined, asked: SequenceNumber, joined: Promise<unknown>): Promise<string> {
    await joined;
    this.#joinedBy ??= nextInOrder();
    return statsDocument(this.#env, { scope }, Math.max(asked, this.#joinedBy));
  }

  async #key(key: string, asked: SequenceNumber): Promise<string> {
    return (await keyDocument(this.#env, key, { history: false }, asked)) ?? "null";
  }
}
