import type { Flag } from "../args/spec.ts";

export const KEY = { name: "--key", value: "KEY", help: "hold this key at the server" } as const satisfies Flag;
export const FILE = { name: "--file", value: "PATH", help: "hold this lock file" } as const satisfies Flag;
export const STALE = {
  name: "--stale",
  value: "S",
  help: "age in seconds from which a lock file may be taken over, 0 = never (default 3600)",
} as const satisfies Flag;
export const TAG = {
  name: "--tag",
  value: "TEXT",
  help: "name shown to others: tag of the file, label at the server",
} as const satisfies Flag;
export const ON_LOST = {
  name: "--on-lost",
  value: "kill|warn",
  choices: ["kill", "warn"],
  help: "when the lock is lost: end the command (default), or only say so",
} as const satisfies Flag;
