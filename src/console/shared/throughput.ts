import { type Buckets, bucketsOf, quantileOf, type Sample, samplesOf, since, sumOf } from "./metrics.ts";
import { type Service, ServiceError } from "./service.ts";

/** The service as a whole at one moment. */
export interface Throughput {
  readonly sessions: number;
  /** Undefined for tickets, which do not open the metrics. */
  readonly flow: Flow | undefined;
}

export interface Flow {
  readonly keys: number;
  /** Undefined if there are so many keys that it could only be estimated. */
  readonly waiters: number | undefined;
  /** It takes no new work. */
  readonly isDraining: boolean;
  /** Undefined until there are two moments to compare. */
  readonly grantsPerSecond: number | undefined;
  /** Seconds; since the page was opened, or over all time if nothing happened since. Undefined if nothing ever did. */
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

/** Keys may be asked for a scrape: no more than this part of the time is spent on it. */
const BUSY_PART = 0.05;

/** Rates are taken over so long: a page that asks every few seconds would otherwise show noise. */
const WINDOW_MS = 20_000;

/** Makes rates and percentiles of the service's counters and histograms. */
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

  /** How things stand; as they stood last, if asking takes the service so long that it should not be asked again yet. */
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
    // However long ago the last look was, there is always one to compare with.
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
