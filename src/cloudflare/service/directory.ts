import type { Directory, Gauges, KeyPage, KeyRange } from "../../service.ts";
import { labelsOf } from "../calls/directories.ts";
import type { Env } from "../env.ts";
import { countAnswering, gatherGauges } from "./gauges.ts";
import { findKeys } from "./key-walk.ts";
import { membersOf, withLabels } from "./labels.ts";

/** The directory's shards and the keys that they list. A question wakes at most a hundred objects, and ends early if need be. */
export class CloudflareDirectory implements Directory {
  readonly #env: Env;

  constructor(env: Env) {
    this.#env = env;
  }

  async page(range: KeyRange): Promise<KeyPage> {
    const { sessions, asks, late, isAnswering } = await countAnswering(this.#env);
    const { keys, ...found } = await findKeys(this.#env, { ...range, asks, isAnswering });
    const labels = range.detail ? await labelsOf(this.#env, keys.flatMap(membersOf)) : {};
    const isBehind = late > 0 || !isAnswering.every((answers) => answers);
    return { sessions, keys: keys.map((key) => withLabels(key, labels)), ...found, isBehind };
  }

  gauges(options: { readonly mayEstimate: boolean }): Promise<Gauges> {
    return gatherGauges(this.#env, options);
  }
}
