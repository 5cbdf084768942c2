import type { Flag } from "../args/spec.ts";

export const OPERATIONS = {
  name: "--operations",
  value: "LIST",
  help: "lock, semaphore, stats, with commas between (default lock)",
} as const satisfies Flag;
export const TTL = {
  name: "--ttl",
  value: "S",
  help: "seconds it is good for, up to 86400 (default 300)",
} as const satisfies Flag;
