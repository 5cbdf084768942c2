import { readdirSync } from "node:fs";
import { formatLockText } from "../core/protocols/lockfile/index.ts";
import { type ExaminedLock, examineLock } from "./examine.ts";
import { type Holder, holderOf, isOwnedBy, isStale, nowSeconds, type Owner } from "./holder.ts";
import { isAuxiliaryName, type LockPath } from "./paths.ts";
import { removeLock, type Warn } from "./remove.ts";
import { close, isFound, look, openToRewrite, remove, sync, unless, writeWhole } from "./system.ts";

/**
 * Changes to existing lock files. All functions must be called under the guard, and return undefined if another program
 * has changed the file meanwhile: call them again.
 */

const LEFTOVER_NS = 60_000_000_000n;

export type Release = { readonly kind: "free" } | { readonly kind: "released" | "not-owner"; readonly holder: Holder };

/** Removes the lock file if it belongs to the owner, or any lock file for `"anyone"`. */
export function release(where: LockPath, owner: Owner | "anyone", warn: Warn): Release | undefined {
  const seen = examineLock(where);
  if (seen.kind === "absent") return { kind: "free" };
  const holder = holderOf(seen);
  if (owner !== "anyone" && !isOwnedBy(seen, owner)) return { kind: "not-owner", holder };
  switch (removeLock(where, seen, warn)) {
    case "removed":
      return { kind: "released", holder };
    case "gone":
      return { kind: "free" };
    case "changed":
      return undefined;
  }
}

export type Refresh =
  | { readonly kind: "free" }
  | { readonly kind: "not-owner"; readonly holder: Holder }
  | { readonly kind: "refreshed"; readonly timestamp: number };

/** Sets the owner's lock file to the current time, and its tag if given. Same file, same nonce; never creates it. */
export function refresh(where: LockPath, owner: Owner, tag: string | undefined): Refresh | undefined {
  const seen = examineLock(where);
  if (seen.kind === "absent") return { kind: "free" };
  if (seen.text.kind === "malformed" || !isOwnedBy(seen, owner)) return { kind: "not-owner", holder: holderOf(seen) };
  const timestamp = nowSeconds();
  const text = formatLockText({ ...seen.text, timestamp, ...(tag !== undefined && { tag }) });
  return rewrite(where, seen, text) ? { kind: "refreshed", timestamp } : undefined;
}

/** False if the file was replaced. */
function rewrite({ path }: LockPath, seen: ExaminedLock, text: string): boolean {
  const file = unless(["ENOENT", "ELOOP", "ENXIO"], () => openToRewrite(path));
  if (file === undefined) return false;
  try {
    if (!isFound(file, seen)) return false;
    writeWhole(file, text);
    sync(file);
    return true;
  } finally {
    close(file);
  }
}

export type Cleaning =
  | { readonly kind: "cleaned"; readonly isRemoved: boolean; readonly leftovers: number }
  | { readonly kind: "held"; readonly holder: Holder };

/** Removes the lock file if it is stale, and auxiliary files of this lock that are older than a minute. */
export function clean(where: LockPath, stale: number, warn: Warn): Cleaning | undefined {
  const seen = examineLock(where);
  const leftovers = removeLeftovers(where);
  if (seen.kind === "absent") return { kind: "cleaned", isRemoved: false, leftovers };
  if (!isStale(seen, stale)) return { kind: "held", holder: holderOf(seen) };
  const removal = removeLock(where, seen, warn);
  return removal === "changed" ? undefined : { kind: "cleaned", isRemoved: removal === "removed", leftovers };
}

function removeLeftovers(where: LockPath): number {
  const oldest = BigInt(Date.now()) * 1_000_000n - LEFTOVER_NS;
  const names = readdirSync(where.directory).filter((name) => isAuxiliaryName(where, name));
  const leftovers = names
    .map((name) => where.directory + name)
    .filter((path) => {
      const found = look(path);
      return found?.isRegular && found.mtimeNs < oldest;
    });
  leftovers.forEach(remove);
  return leftovers.length;
}
