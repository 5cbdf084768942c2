import { createLock, type FileCreator, type MadeLock } from "./create.ts";
import { type ExaminedLock, examineLock, isSameLock } from "./examine.ts";
import { withGuard } from "./guard.ts";
import { type Holder, holderOf, isStale } from "./holder.ts";
import type { LockPath } from "./paths.ts";
import { type Removal, removeLock, type Warn } from "./remove.ts";
import type { Limits } from "./waiting.ts";

const MAX_ROUNDS = 16;

/** `busy`: the lock is stale, and the guard was not free in time. */
export type Attempt =
  | { readonly kind: "acquired"; readonly lock: MadeLock; readonly tookOver: boolean }
  | { readonly kind: "held" | "busy"; readonly holder: Holder | undefined };

export interface Wish extends FileCreator {
  /** Whole seconds after which a lock may be taken over; 0 means never. */
  readonly stale: number;
  readonly warn: Warn;
}

/**
 * One attempt to create the lock file. Of all contenders, including those that take over a stale lock, exactly one
 * acquires: removing the stale file gives no contender an advantage, and only one creation can succeed.
 */
export async function attempt(where: LockPath, wish: Wish, limits: Limits): Promise<Attempt> {
  let tookOver = false;
  let holder: Holder | undefined;
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    limits.signal?.throwIfAborted();
    const seen = examineLock(where);
    if (seen.kind === "absent") {
      const lock = createLock(where, wish);
      if (lock) return { kind: "acquired", lock, tookOver };
      continue;
    }
    holder = holderOf(seen);
    if (!isStale(seen, wish.stale)) return { kind: "held", holder };
    const takeover = await withGuard(
      where,
      limits,
      () => removeStale(where, seen, wish),
      () => !isSameLock(seen, examineLock(where)),
    );
    if (takeover.kind === "busy") return { kind: "busy", holder };
    tookOver ||= takeover.kind === "done" && takeover.value === "removed";
  }
  return { kind: "held", holder };
}

/** Removes a stale lock if it is still the one that was seen. Must be called under the guard. */
export function removeStale(
  where: LockPath,
  seen: ExaminedLock,
  { stale, warn }: Pick<Wish, "stale" | "warn">,
): Removal {
  const now = examineLock(where);
  if (now.kind === "absent") return "gone";
  if (!isSameLock(seen, now) || !isStale(now, stale)) return "changed";
  return removeLock(where, now, warn);
}
