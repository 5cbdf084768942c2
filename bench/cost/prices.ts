/** What Cloudflare charges on the paid plan beyond what that includes, as published on 2026-11-17. */
import { type Counts, eventsOf } from "./counts.ts";

export const READ_ON = "2026-11-17";
export const SOURCES = {
  objects: "https://developers.cloudflare.com/durable-objects/platform/pricing/",
  workers: "https://developers.cloudflare.com/workers/platform/pricing/",
} as const;

export type Meter = "rowsWritten" | "requests" | "gbSeconds" | "workerRequests" | "rowsRead";

export interface Price {
  /** Dollars for a million. */
  readonly perMillion: number;
  readonly unit: string;
  /** What the paid plan includes per month. */
  readonly included: string;
  readonly source: keyof typeof SOURCES;
}

/** The one table of prices. */
export const PRICES: Readonly<Record<Meter, Price>> = {
  rowsWritten: { perMillion: 1, unit: "rows written", included: "50 million", source: "objects" },
  requests: { perMillion: 0.15, unit: "requests to objects", included: "1 million", source: "objects" },
  gbSeconds: { perMillion: 12.5, unit: "GB-seconds of active objects", included: "400,000", source: "objects" },
  workerRequests: { perMillion: 0.3, unit: "requests to the Worker", included: "10 million", source: "workers" },
  rowsRead: { perMillion: 0.001, unit: "rows read", included: "25,000 million", source: "objects" },
};

/** So many incoming WebSocket messages are charged as one request. */
export const MESSAGES_PER_REQUEST = 20;
/** An object is charged as if it used this much, in GB. */
export const OBJECT_GB = 0.128;
/** Assumed: how long an object runs for one event. It depends on the distance between objects, which nobody can count. */
export const EVENT_MS = 5;

/** Requests to objects, as charged. */
export const requestsOf = ({ calls, alarms, messages }: Counts) => calls + alarms + messages / MESSAGES_PER_REQUEST;

/** Time for which objects are charged. */
export const activeMsOf = (counts: Counts) => eventsOf(counts) * EVENT_MS + counts.heldMs;

/** How much of each meter is used. */
export function usageOf(counts: Counts): Readonly<Record<Meter, number>> {
  return {
    rowsWritten: counts.rowsWritten,
    requests: requestsOf(counts),
    gbSeconds: (activeMsOf(counts) / 1000) * OBJECT_GB,
    workerRequests: counts.workerRequests,
    rowsRead: counts.rowsRead,
  };
}

/** Dollars for a million of what was counted once, by meter. */
export function dollarsByMeter(counts: Counts): Readonly<Record<Meter, number>> {
  const usage = usageOf(counts);
  const meters = Object.keys(PRICES) as Meter[];
  return Object.fromEntries(meters.map((meter) => [meter, usage[meter] * PRICES[meter].perMillion])) as Record<
    Meter,
    number
  >;
}

/** Dollars for a million of what was counted once. */
export const dollarsPerMillion = (counts: Counts) =>
  Object.values(dollarsByMeter(counts)).reduce((sum, dollars) => sum + dollars, 0);
