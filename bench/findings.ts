import type { Capacity } from "./capacity.ts";
import type { ServerNote } from "./contenders.ts";
import type { WorkloadResult } from "./cycles.ts";
import type { Machine } from "./machine.ts";

/** All that one run has found out. */
export interface Findings {
  /** The day of the run, `2026-11-17`. */
  readonly day: string;
  readonly seconds: number;
  readonly rounds: number;
  readonly machine: Machine;
  /** Load of the machine before and after. */
  readonly load: readonly [number, number];
  readonly servers: readonly ServerNote[];
  readonly workloads: readonly WorkloadResult[];
  /** Undefined if it was left out. */
  readonly capacity: Capacity | undefined;
}
