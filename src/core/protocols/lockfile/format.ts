import { isNonce, MAX_PID } from "./fields.ts";
import type { LockFields } from "./parse.ts";

const MAX_TAG_CODE_POINTS = 10_000;

/**
 * Turns any text into one line: replaces control characters by blanks, removes trailing blanks, and truncates it to
 * 10,000 code points.
 */
export function cleanText(text: string): string {
  const start = text.slice(0, 2 * MAX_TAG_CODE_POINTS).toWellFormed();
  const characters = Array.from(start, (each) => (isControl(each) ? " " : each)).slice(0, MAX_TAG_CODE_POINTS);
  return characters.slice(0, characters.findLastIndex((each) => each !== " ") + 1).join("");
}

function isControl(character: string): boolean {
  return character < " " || character === "\x7f";
}

/**
 * The text of a lock file. Tag and host are cleaned, so no value can add a line. Throws a `RangeError` for a pid, timestamp,
 * nonce, fence or expiry that no reader would accept.
 */
export function formatLockText({ pid, timestamp, tag, host, nonce, fence, expires }: LockFields): string {
  checkNumber("pid", pid, MAX_PID);
  checkNumber("timestamp", timestamp, Number.MAX_SAFE_INTEGER);
  if (expires !== undefined) checkNumber("expires", expires, Number.MAX_SAFE_INTEGER);
  if (fence !== undefined && fence < 0n) throw new RangeError(`fence must not be negative: ${fence}`);
  if (nonce !== undefined && !isNonce(nonce)) throw new RangeError("nonce must be 1 to 64 of the digits 0-9a-f");
  const lines: readonly (readonly [string, string | number | bigint | undefined])[] = [
    ["pid", pid],
    ["timestamp", timestamp],
    ["tag", tag === undefined ? undefined : cleanText(tag)],
    ["host", host === undefined ? undefined : cleanText(host)],
    ["nonce", nonce],
    ["fence", fence],
    ["expires", expires],
  ];
  return lines.map(([key, value]) => (value === undefined ? "" : `${key}=${value}\n`)).join("");
}

function checkNumber(name: string, value: number, max: number): void {
  if (!Number.isInteger(value) || value < 0 || value > max)
    throw new RangeError(`${name} must be a whole number from 0 to ${max}: ${value}`);
}
