import { hash } from "../../hash.ts";
import type { Env } from "../env.ts";
import type { MetricsObject } from "./metrics-object.ts";

type CollectorStub = DurableObjectStub<MetricsObject>;

/** Fixed for ever: a collector that is no longer asked takes its sums with it, and counters would fall. */
const SHARDS = 8;

/** The object that collects what this part of the service has counted. */
export function collectorOf(env: Env, name: string): CollectorStub {
  return shard(env, hash(name) % SHARDS);
}

export function allCollectors(env: Env): CollectorStub[] {
  return Array.from({ length: SHARDS }, (_, index) => shard(env, index));
}

function shard(env: Env, index: number): CollectorStub {
  return env.METRICS.getByName(`shard-${index}`);
}
