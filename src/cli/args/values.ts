import { isLabel } from "../../client/connection/socket.ts";
import { MAX_KEYS } from "../../client/limits.ts";
import { isKey, MAX_KEY_BYTES, MAX_SECONDS, MAX_SLOTS } from "../../client/wire.ts";
import { UsageError } from "../output/errors.ts";
import { ON_LOST, STALE } from "./flags.ts";
import type { Arguments } from "./parse.ts";
import type { Flag } from "./spec.ts";

const SECONDS = /^[0-9]+(\.[0-9]{1,3})?$/;
const WHOLE = /^[0-9]+$/;
const MAX_SHOWN = 64;

/** A value in an error message: quoted, on one line, not too long. Never used for tokens. */
function shown(text: string): string {
  return JSON.stringify(text.slice(0, MAX_SHOWN));
}

/** Seconds in a flag, with up to three decimals. */
export function secondsIn(args: Arguments, flag: Flag): number | undefined {
  const text = args.text(flag);
  if (text === undefined) return undefined;
  const seconds = SECONDS.test(text) ? Number(text) : Number.NaN;
  if (seconds <= MAX_SECONDS) return seconds;
  throw new UsageError(`${flag.name} must be seconds from 0 to ${MAX_SECONDS}, such as 10 or 1.5, not ${shown(text)}`);
}

/** The age from which a lock file is stale, in whole seconds. Refuses what would round to 0: 0 turns takeover off. */
export function staleIn(args: Arguments): number | undefined {
  const seconds = secondsIn(args, STALE);
  if (seconds !== undefined && seconds > 0 && seconds < 1) throw new UsageError("--stale must be 0 or at least 1");
  return seconds === undefined ? undefined : Math.floor(seconds);
}

/** A lease in whole seconds, rounded up: the server takes no fractions, and a lease is never shorter than asked for. */
export function leaseIn(args: Arguments, flag: Flag): number | undefined {
  const seconds = secondsIn(args, flag);
  if (seconds === 0) throw new UsageError(`${flag.name} must be more than 0`);
  return seconds === undefined ? undefined : Math.ceil(seconds);
}

/** A whole number in a flag. */
export function countIn(args: Arguments, flag: Flag, max: number = MAX_SLOTS): number | undefined {
  const text = args.text(flag);
  if (text === undefined) return undefined;
  const count = WHOLE.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= max) return count;
  throw new UsageError(`${flag.name} must be a whole number from 1 to ${max}, not ${shown(text)}`);
}

/** A key, as the server accepts it. */
export function keyIn(text: string, what: string): string {
  if (isKey(text)) return text;
  throw new UsageError(
    `${what} must be 1 to ${MAX_KEY_BYTES} bytes without blanks and line breaks, not ${shown(text)}`,
  );
}

/** The keys of a flag that may be repeated, in the order given. */
export function keysIn(args: Arguments, flag: Flag): readonly string[] {
  const keys = args.texts(flag).map((text) => keyIn(text, flag.name));
  if (keys.length > MAX_KEYS) throw new UsageError(`${flag.name} may be given ${MAX_KEYS} times, not ${keys.length}`);
  const twice = keys.find((key, at) => keys.indexOf(key) < at);
  if (twice !== undefined) throw new UsageError(`${flag.name} ${shown(twice)} is given twice`);
  return keys;
}

/** 32 hex digits: the format of lock tokens and session ids. */
export function hexIn(text: string, what: string): string {
  if (/^[0-9a-f]{32}$/.test(text)) return text;
  throw new UsageError(`${what} must be 32 hex digits`);
}

export function labelIn(args: Arguments, flag: Flag): string | undefined {
  const text = args.text(flag);
  if (text === undefined || isLabel(text)) return text;
  throw new UsageError(`${flag.name} must be 1 to 64 printable characters`);
}

export function onLostIn(args: Arguments): "kill" | "warn" {
  const text = args.text(ON_LOST) ?? "kill";
  if (text === "kill" || text === "warn") return text;
  throw new UsageError(`${ON_LOST.name} must be kill or warn, not ${shown(text)}`);
}
