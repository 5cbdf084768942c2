import { type Buckets, bucketsOf, quantileOf, type Sample, samplesOf, since, sumOf } from "./metrics.ts";
import { type Service, ServiceError } from "./service.ts";

/** Figures of the whole service. */
export interface Throughput {
  readonly sessions: number;
  /** Undefined for tickets, which do not allow metrics. */
  readonly flow: Flow | undefined;
}

export interface Flow {
  readonly keys: number;
  /** Undefined if there are too many keys to count exactly. */
  readonly waiters: number | undefined;
  readonly isDraining: boolean;
  /** Undefined until there are two scrapes. */
  readonly grantsPerSecond: number | undefined;
  /** Seconds, since the page was opened, or over all time if there was nothing since. Undefined without observations. */
  readonly waitP95: number | undefined;
  readonly holdP95: number | undefined;
}

interface Look {
  readonly at: number;
  readonly grants: number;
}

interface Histograms {
  readonly wait: Buckets;
  readonly hold: Buckets;
}

/** A scrape may have to ask keys: it takes at most this part of the time. */
const BUSY_PART = 0.05;

/** Rates are averages over this time. */
const WINDOW_MS = 20_000;

/** Computes rates and percentiles from the service's metrics. */
export class ThroughputWatch {
  readonly #service: Service;
  #looks: Look[] = [];
  #first: Histograms | undefined;
  #mayLook = true;
  #last: Throughput | undefined;
  #notBefore = 0;

  constructor(service: Service) {
    this.#service = service;
  }

  /** The current figures; the last ones if scrapes are so slow that the next one must wait. */
  async look(signal: AbortSignal): Promise<Throughput> {
    const started = performance.now();
    if (this.#last && started < this.#notBefore) return this.#last;
    this.#last = await this.#ask(signal);
    const now = performance.now();
    this.#notBefore = now + (now - started) / BUSY_PART - (now - started);
    return this.#last;
  }

  async #ask(signal: AbortSignal): Promise<Throughput> {
    const samples = this.#mayLook ? await this.#scrape(signal) : undefined;
    if (samples) return { sessions: sumOf(samples, "dflockd_connections"), flow: this.#flowOf(samples) };
    const { connections } = await this.#service.json<{ connections: number }>("/v1/stats?limit=1", { signal });
    return { sessions: connections, flow: undefined };
  }

  async #scrape(signal: AbortSignal): Promise<Sample[] | undefined> {
    try {
      return samplesOf(await this.#service.text("/metrics?exact=true", { signal }));
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== "forbidden") throw error;
      this.#mayLook = false;
      return undefined;
    }
  }

  #flowOf(samples: readonly Sample[]): Flow {
    const [at, grants] = [performance.now(), sumOf(samples, "dflockd_grants_total")];
    // Keep one older scrape to compare with.
    const before = this.#looks.filter((look) => look.at <= at - WINDOW_MS).slice(-1);
    const recent = this.#looks.filter((look) => look.at > at - WINDOW_MS);
    this.#looks = [...(recent.length > 0 ? [] : before), ...recent, { at, grants }];
    const [oldest] = this.#looks;
    const seconds = oldest ? (at - oldest.at) / 1000 : 0;
    const now = {
      wait: bucketsOf(samples, "dflockd_lock_wait_seconds"),
      hold: bucketsOf(samples, "dflockd_lock_hold_seconds"),
    };
    this.#first ??= now;
    return {
      keys: sumOf(samples, "dflockd_keys"),
      waiters: samples.some(({ name }) => name === "dflockd_lock_waiters")
        ? sumOf(samples, "dflockd_lock_waiters") + sumOf(samples, "dflockd_semaphore_waiters")
        : undefined,
      isDraining: sumOf(samples, "dflockd_draining") > 0,
      grantsPerSecond: oldest && seconds > 0 ? Math.max(0, grants - oldest.grants) / seconds : undefined,
      waitP95: p95(this.#first.wait, now.wait),
      holdP95: p95(this.#first.hold, now.hold),
    };
  }
}

function p95(before: Buckets, now: Buckets): number | undefined {
  return quantileOf(since(before, now), 0.95) ?? quantileOf(now, 0.95);
}
