export const OPERATIONS = ["lock", "semaphore", "stats"] as const;

export type ScopeOperation = (typeof OPERATIONS)[number];

/** What a ticket allows. */
export interface Scope {
  /** Exact keys, or prefixes if they end in `*`. Only the last character is special; `*` alone means every key. */
  readonly keys: readonly string[];
  readonly operations: readonly ScopeOperation[];
  /** In milliseconds; from this instant on the scope allows nothing. */
  readonly expiresAt: number;
}

export function permits(scope: Scope, operation: ScopeOperation, key: string): boolean {
  return scope.operations.includes(operation) && seesKey(scope, key);
}

/** Whether the scope includes the key, for any operation. */
export function seesKey({ keys }: Scope, key: string): boolean {
  return keys.some((pattern) => (pattern.endsWith("*") ? key.startsWith(pattern.slice(0, -1)) : key === pattern));
}

/** What all keys of the scope begin with. */
export function commonPrefix({ keys }: Scope): string {
  const [first = "", ...others] = keys.map((pattern) => (pattern.endsWith("*") ? pattern.slice(0, -1) : pattern));
  let length = first.length;
  for (const other of others) while (!other.startsWith(first.slice(0, length))) length -= 1;
  // Two characters may begin with the same half.
  return first.slice(0, length).isWellFormed() ? first.slice(0, length) : first.slice(0, length - 1);
}
