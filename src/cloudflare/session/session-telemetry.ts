import { countAnswer } from "../../core/metrics/count-answer.ts";
import type { Happening } from "../../core/session/effects.ts";
import { ownerIdOf } from "../../core/session-names.ts";
import { log } from "../../log.ts";
import type { Transport } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";
import { Meter } from "../metrics/meter.ts";

/** What a session counts and logs. */
export class SessionTelemetry {
  readonly #ctx: Pick<DurableObjectState, "waitUntil">;
  readonly #env: Env;
  readonly #session: string;
  readonly #isDebugging: boolean;
  /** Undefined until something is counted. */
  #meter: Meter | undefined;

  constructor(
    ctx: Pick<DurableObjectState, "waitUntil">,
    env: Env,
    { session, debug }: { readonly session: string; debug: boolean },
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#session = session;
    this.#isDebugging = debug;
  }

  count(happening: Happening, transport: Transport = "ws"): void {
    this.#meter ??= new Meter(this.#env, (promise) => this.#ctx.waitUntil(promise));
    if (happening.type === "answered") countAnswer(this.#meter, happening.status);
    else if (happening.type === "protocol_error")
      this.#meter.count("protocol_errors_total", { code: String(happening.code) });
    else this.#meter.count("auth_failures_total", { transport });
  }

  log(level: "debug" | "warn" | "error", event: string, fields: object = {}): void {
    if (level !== "debug") log(level, event, { ...fields });
    else if (this.#isDebugging) log("debug", event, { session: ownerIdOf(this.#session), ...fields });
  }

  /** Resolves when no report of what was counted is in flight. */
  async settled(): Promise<void> {
    await this.#meter?.settled();
  }
}
