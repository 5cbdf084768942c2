import { hash } from "../../core/hash.ts";
import type { PartialEnv } from "../env.ts";
import { objectsOf } from "../placement.ts";
import type { MetricsObject } from "./metrics-object.ts";

type CollectorStub = DurableObjectStub<MetricsObject>;

/** Must never change: the sums of a collector that is no longer asked would be lost, and counters would fall. */
const SHARDS = 8;

/** The object that collects the counts of this part of the service. */
export function collectorOf(env: PartialEnv, name: string): CollectorStub {
  return shard(env, hash(name) % SHARDS);
}

export function allCollectors(env: PartialEnv): CollectorStub[] {
  return Array.from({ length: SHARDS }, (_, index) => shard(env, index));
}

function shard(env: PartialEnv, index: number): CollectorStub {
  return objectsOf(env, "METRICS").getByName(`shard-${index}`);
}
