import type { ClaimCommand, ClaimOutcome, KeyCommandOf, KeyOutcomeOf, StealOutcome } from "../../core/engine/index.ts";
import { randomHex } from "../../core/hex.ts";
import { hasNewLabels } from "../../core/key/history.ts";
import { newSessionlessOwner } from "../../core/session-names.ts";
import { logged } from "../../log.ts";
import type { Claim, ClaimEnd, DirectCommand, KeyReport, Keys, Left } from "../../service.ts";
import { labelsOf } from "../calls/directories.ts";
import { RemoteKeys } from "../calls/remote-keys.ts";
import type { Env } from "../env.ts";
import { keyObject } from "../placement.ts";
import type { WaitUntil } from "./cloudflare-service.ts";
import { membersOf, withLabels } from "./labels.ts";
import { endOfPoll, reportHangUp } from "./poll.ts";

/** Pauses before asking again if the key was lost while its client waited. */
const RETRY_PAUSES_MS = [50, 200, 800, 1_600];
const WITHDRAWAL_PAUSES_MS = [100, 400, 1_600, 5_000];

/** Keys behind their objects. */
export class CloudflareKeys implements Keys {
  readonly #env: Env;
  readonly #waitUntil: WaitUntil;
  readonly #keys: RemoteKeys;

  constructor(env: Env, waitUntil: WaitUntil) {
    this.#env = env;
    this.#waitUntil = waitUntil;
    this.#keys = new RemoteKeys(env);
  }

  ask<Type extends DirectCommand["type"]>(key: string, command: KeyCommandOf<Type>): Promise<KeyOutcomeOf<Type>> {
    return this.#ask(key, command) as Promise<KeyOutcomeOf<Type>>;
  }

  async claim(key: string, claim: Claim, signal: AbortSignal): Promise<ClaimEnd> {
    const claiming = this.#claim(key, claim, signal);
    // Otherwise the Worker would end when the client leaves, and the claim could not be withdrawn.
    this.#waitUntil(claiming.catch(() => {}));
    return claiming;
  }

  async steal(key: string, fence: string): ReturnType<Keys["steal"]> {
    const stolen: StealOutcome = await keyObject(this.#env, key).steal(fence);
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
      await keyObject(env, key).rememberLabels(labels).catch(logged("key_unreachable"));
    return withLabels(view, labels);
  }

  async #ask(key: string, command: DirectCommand): Promise<KeyOutcomeOf<DirectCommand["type"]>> {
    switch (command.type) {
      case "current":
        return (await this.#keys.current(key)) ?? undefined;
      case "refresh":
        return this.#keys.refresh(key, command.command);
      case "remove":
        return this.#keys.remove(key, command.selector);
    }
  }

  async #claim(key: string, { leaseSeconds, waitMs, sessionless }: Claim, signal: AbortSignal): Promise<ClaimEnd> {
    const askedAt = Date.now();
    const session = newSessionlessOwner(sessionless.kind);
    const command = { session, request: randomHex(12), leaseSeconds, waitMs, sessionless };
    try {
      const end = waitMs > 0 ? await this.#wait(key, command, signal) : await this.#keys.claim(key, command);
      if (end.status === "queued") throw new Error("a claim that may not wait was queued");
      if (waitMs === 0) await reportHangUp(askedAt);
      if (!signal.aborted) return end;
    } catch (error) {
      this.#waitUntil(this.#withdraw(key, command.request));
      throw error;
    }
    this.#waitUntil(this.#withdraw(key, command.request));
    return { status: "left" };
  }

  /**
   * Waits at the key, on a socket to its object. If the socket is lost, the same claim is made again: its place is
   * stored, so it keeps its position.
   */
  async #wait(key: string, command: ClaimCommand, signal: AbortSignal): Promise<ClaimOutcome | Left> {
    const deadline = Date.now() + command.waitMs;
    for (const pauseMs of [...RETRY_PAUSES_MS, undefined]) {
      const socket = await this.#keys.listen(key, command.request);
      const ending = endOfPoll<ClaimOutcome>(socket, signal);
      socket.send(JSON.stringify({ ...command, waitMs: Math.max(1, deadline - Date.now()) } satisfies ClaimCommand));
      const end = await ending;
      if (end.type === "answered") return end.outcome;
      if (end.type !== "lost" || signal.aborted) return { status: "left" };
      if (pauseMs !== undefined) await scheduler.wait(pauseMs);
    }
    throw new Error("the key was lost again and again");
  }

  /** Withdraws a claim and whatever it was granted, retrying if its key cannot be reached. */
  async #withdraw(key: string, request: string): Promise<void> {
    for (const pauseMs of [...WITHDRAWAL_PAUSES_MS, undefined]) {
      try {
        return await this.#keys.cancel(key, request);
      } catch (error) {
        if (pauseMs === undefined) logged("withdrawal_failed")(error);
        else await scheduler.wait(pauseMs);
      }
    }
  }
}
