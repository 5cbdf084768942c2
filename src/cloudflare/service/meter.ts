import { Tally } from "../../core/metrics/tally.ts";
import type { Meter as MeterPort, MeterReading } from "../../service.ts";
import type { Env } from "../env.ts";
import { allCollectors } from "../metrics/collectors.ts";
import { settleReports } from "../metrics/isolate-tally.ts";
import { Meter } from "../metrics/meter.ts";
import type { WaitUntil } from "./cloudflare-service.ts";

/** Counts for one request, and reads what the whole service has counted. */
export class ServiceMeter extends Meter implements MeterPort {
  readonly #env: Env;

  constructor(env: Env, waitUntil: WaitUntil) {
    super(env, waitUntil);
    this.#env = env;
  }

  /** Includes everything this isolate has counted before. */
  async read(): Promise<MeterReading> {
    await settleReports(this.#env);
    const readings = await Promise.all(allCollectors(this.#env).map((collector) => collector.read()));
    const tally = new Tally();
    for (const { sums } of readings) tally.merge(sums);
    return { sums: tally.read(), startedAt: Math.min(...readings.map(({ startedAt }) => startedAt)) };
  }
}
