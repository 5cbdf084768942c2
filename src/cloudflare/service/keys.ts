import type { KeyCommandOf, KeyOutcomeOf } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { hasNewLabels } from "../../core/key/history.ts";
import { newSessionlessOwner } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import type { Claim, ClaimEnd, DirectCommand, KeyReport, Keys } from "../../service.ts";
import { labelsOf } from "../calls/directories.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import type { PartialEnv } from "../env.ts";
import { keyObject } from "../placement.ts";
import { Claims } from "./claims.ts";
import type { WaitUntil } from "./cloudflare-service.ts";
import { membersOf, withLabels } from "./labels.ts";

/** Keys behind their objects. */
export class CloudflareKeys implements Keys {
  readonly #env: PartialEnv;
  readonly #keys: RemoteKeys;
  readonly #claims: Claims;

  constructor(env: PartialEnv, waitUntil: WaitUntil) {
    this.#env = env;
    this.#keys = new RemoteKeys(env);
    this.#claims = new Claims(this.#keys, waitUntil);
  }

  ask<Type extends DirectCommand["type"]>(key: string, command: KeyCommandOf<Type>): Promise<KeyOutcomeOf<Type>> {
    return this.#keys.command(key, command) as Promise<KeyOutcomeOf<Type>>;
  }

  claim(key: string, { leaseSeconds, waitMs, sessionless }: Claim, signal: AbortSignal): Promise<ClaimEnd> {
    const session = newSessionlessOwner(sessionless.kind);
    return this.#claims.make(key, { session, request: randomHex(12), leaseSeconds, waitMs, sessionless }, signal);
  }

  async steal(key: string, fence: string): ReturnType<Keys["steal"]> {
    // Made again, it would not find the hold that the first call took.
    const stolen = await this.#keys.command(key, { type: "steal", fence }, () => false);
    if (stolen.status === "not_held") return stolen;
    const labels = await labelsOf(this.#env, [stolen.session]).catch(() => undefined);
    const label = labels?.[stolen.session];
    return { ...stolen, ...(label !== undefined && { label }) };
  }

  async describe(key: string, { history }: { readonly history: boolean }): Promise<KeyReport | undefined> {
    const env = this.#env;
    const view = await keyObject(env, key).describe({ detail: true, history });
    if (!view) return undefined;
    const labels = await labelsOf(env, membersOf(view));
    // Sessions that have ended have no label in the directory: store the labels known now with the key.
    if (view.history && hasNewLabels(view.history, labels))
      await keyObject(env, key).rememberLabels({ labels }).catch(logged("key_unreachable"));
    return withLabels(view, labels);
  }
}
