import { LOCATIONS } from "../../core/config/locations.ts";
import type { Env } from "../env.ts";
import { badArgument, shownAs } from "../locks/arguments.ts";
import type { LocksBinding } from "../locks/binding.ts";
import type { OwnLocks } from "./api.ts";
import { BoundLocks } from "./bound-locks.ts";
import { KeyLocks } from "./key-locks.ts";
import { notABinding } from "./setup.ts";

interface Options {
  /** Where a key is placed that is used for the first time. Default: near its first user. */
  readonly locationHint?: string | undefined;
}

/** The locks behind a namespace of `LockKey`, or behind a service binding with `entrypoint = "Locks"`. */
export function locks(binding: object | undefined, options: Options = {}): OwnLocks {
  const hint = locationIn(options);
  if (typeof binding !== "object" || binding === null) throw notABinding(binding);
  if (isNamespace(binding)) return new KeyLocks({ KEY: binding, ...(hint && { LOCATION_HINTS: `=${hint}` }) });
  if (!isService(binding)) throw notABinding(binding);
  if (hint !== undefined) throw badArgument("option locationHint is for a namespace: a service places its keys itself");
  return new BoundLocks(binding);
}

function locationIn(options: Options): string | undefined {
  const { locationHint, ...others } = options;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw badArgument(`option "${unknown}" is not known; known are: locationHint`);
  if (locationHint === undefined || LOCATIONS.some((each) => each === locationHint)) return locationHint;
  throw badArgument(`option "locationHint" must be one of ${LOCATIONS.join(", ")}, not ${shownAs(locationHint)}`);
}

/** By its class: any name asked of a service binding is a function (workerd 2026-11). */
function isNamespace(binding: object): binding is Env["KEY"] {
  return hasOnItsClass(binding, "getByName");
}

function isService(binding: object): binding is LocksBinding {
  return hasOnItsClass(binding, "fetch");
}

function hasOnItsClass(binding: object, method: string): boolean {
  for (let type = Object.getPrototypeOf(binding); type; type = Object.getPrototypeOf(type))
    if (Object.hasOwn(type, method)) return true;
  return false;
}
