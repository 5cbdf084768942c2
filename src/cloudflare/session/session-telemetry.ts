import { countHappening } from "../../core/metrics/count.ts";
import type { Happening } from "../../core/session/effects.ts";
import { ownerIdOf } from "../../core/session-names.ts";
import { log } from "../../log.ts";
import type { Transport } from "../directory/directory-object.ts";
import { Meter } from "../metrics/meter.ts";
import type { CommonParts } from "../session-common/session-parts.ts";

/** What a session counts and logs. */
export class SessionTelemetry {
  readonly #parts: CommonParts;
  /** Undefined until something is counted. */
  #meter: Meter | undefined;

  constructor(parts: CommonParts) {
    this.#parts = parts;
  }

  count(happening: Happening, transport: Transport = "ws"): void {
    const { ctx, env } = this.#parts;
    this.#meter ??= new Meter(env, (promise) => ctx.waitUntil(promise));
    countHappening(this.#meter, happening, transport);
  }

  log(level: "debug" | "warn" | "error", event: string, fields: object = {}): void {
    const { name, config } = this.#parts;
    if (level !== "debug") log(level, event, { ...fields });
    else if (config.debug) log("debug", event, { session: ownerIdOf(name), ...fields });
  }

  /** Resolves when no report of what was counted is in flight. */
  async settled(): Promise<void> {
    await this.#meter?.settled();
  }
}
