/** Validation of arguments, for callers from plain JavaScript. */
import { isLabel } from "./connection/socket.ts";
import { MAX_KEYS, MAX_LEASE_MS, MAX_SHOWN } from "./limits.ts";
import { isKey, MAX_KEY_BYTES, MAX_SLOTS } from "./wire.ts";

type Rule = readonly [mustBe: string, holds: (value: unknown) => boolean];

const isText = (value: unknown): value is string => typeof value === "string";
const isFunction = (value: unknown) => typeof value === "function";
const isNumber = (value: unknown): value is number => typeof value === "number";
const can = (value: unknown, name: string) => isFunction((value as Record<string, unknown> | null)?.[name]);

const FUNCTION: Rule = ["a function", isFunction];
const BOOLEAN: Rule = ["true or false", (value) => typeof value === "boolean"];
const DURATION: Rule = ["milliseconds, more than 0", (value) => isNumber(value) && value > 0];

const RULES = {
  callback: FUNCTION,
  clock: ["a Clock", (value) => can(value, "after")],
  ifAvailable: BOOLEAN,
  key: [`1 to ${MAX_KEY_BYTES} bytes without blanks`, isKey],
  keys: [`1 to ${MAX_KEYS} in number`, (value) => isNumber(value) && value > 0 && value <= MAX_KEYS],
  label: ["1 to 64 printable characters", isLabel],
  lease: [
    `${DURATION[0]} and at most ${MAX_LEASE_MS}`,
    (value) => DURATION[1](value) && (value as number) <= MAX_LEASE_MS,
  ],
  limit: [
    `a whole number from 1 to ${MAX_SLOTS}`,
    (value) => Number.isInteger(value) && (value as number) > 0 && (value as number) <= MAX_SLOTS,
  ],
  maxHold: DURATION,
  maxIdle: DURATION,
  // Its value is checked where it is used.
  mode: ["a string", isText],
  options: ["an object", (value) => value !== null && typeof value === "object"],
  // Not `instanceof`: a page with frames has several `AbortSignal` classes.
  signal: ["an AbortSignal", (value) => can(value, "throwIfAborted")],
  steal: BOOLEAN,
  sticky: BOOLEAN,
  timeout: ["milliseconds, 0 or more", (value) => isNumber(value) && value >= 0],
  token: ["a string or a function", (value) => isText(value) || isFunction(value)],
  WebSocket: FUNCTION,
} as const satisfies Record<string, Rule>;

type Name = keyof typeof RULES;

/** Throws if the argument is invalid. */
export function check(call: string, name: Name, value: unknown, what: string = name): void {
  const [mustBe, holds] = RULES[name];
  if (holds(value)) return;
  // A token is a secret, even an invalid one.
  const shown = name === "token" ? "" : `, not ${shownAs(value)}`;
  throw new (isNumber(value) ? RangeError : TypeError)(`${call}: ${what} must be ${mustBe}${shown}`);
}

/** The options of methods that take a key. */
const KNOWN = {
  acquire: "lease limit maxHold signal steal timeout",
  enqueue: "lease limit signal",
  request: "lease limit maxHold maxIdle signal steal sticky timeout",
  tryAcquire: "lease limit maxHold signal steal",
} as const;

export type Call = keyof typeof KNOWN;

/** Throws if the key or an option is invalid. */
export function checkCall(call: Call, key: string, options: object): void {
  check(call, "key", key);
  checkOptions(call, options, KNOWN[call]);
}

/** Throws if an option is invalid, for methods whose limit is fixed. */
export function checkOwn(call: Call, options: object): void {
  checkOptions(call, options, KNOWN[call].replace("limit ", ""));
}

/** Optional options and a callback. */
export function argumentsOf<Options extends object, Callback>(
  first: unknown,
  second: Callback | undefined,
): [Options, Callback] {
  return (isFunction(first) ? [{}, first] : [first ?? {}, second]) as [Options, Callback];
}

/**
 * Throws if an option is unknown or invalid. An undefined option counts as absent. `known` lists the names, separated by
 * blanks.
 */
export function checkOptions(call: string, options: object, known: string): void {
  const names = known.split(" ") as Name[];
  check(call, "options", options);
  for (const [name, value] of Object.entries(options))
    if (value !== undefined && !names.includes(name as Name))
      throw new TypeError(`${call}: option "${name}" is not known; known are: ${names.join(", ")}`);
  for (const name of names) {
    const value = (options as Partial<Record<Name, unknown>>)[name];
    if (value !== undefined) check(call, name, value, `option "${name}"`);
  }
}

/** A value in an error message, on one line and not too long. */
export function shownAs(value: unknown): string {
  if (isText(value)) return `${JSON.stringify(value.slice(0, MAX_SHOWN))}${value.length > MAX_SHOWN ? "…" : ""}`;
  if (Object(value) !== value) return String(value);
  return isFunction(value) ? "a function" : "an object";
}
