/** Validation of what callers send. Every message begins with the error's name and says argument, value and rule. */
import { MAX_SECONDS } from "../../core/config/config.ts";
import type { KeyOptions, Keys, LockOptions, RenewOptions } from "./binding.ts";

const MAX_KEY_BYTES = 256;
const MAX_LIMIT = 1_048_576;
const MAX_TIMEOUT_MS = 60_000;
const DEFAULT_TIMEOUT_MS = 10_000;
const MAX_LEASE_MS = MAX_SECONDS * 1000;
const LABEL = /^[^\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]{1,64}$/u;
const MAX_SHOWN = 64;
/** Each costs a call to its object while those before it are held. */
const MAX_KEYS = 16;

/** On which terms a lock is asked for. */
export interface Terms {
  readonly waitMs: number;
  /** Undefined: the default of the service. */
  readonly leaseMs: number | undefined;
  readonly limit: number;
  readonly label: string | undefined;
}

/** A key, and on which terms it is asked for. */
export interface WantedKey {
  readonly key: string;
  readonly terms: Terms;
}

type Rule = readonly [mustBe: string, holds: (value: unknown) => boolean];

const isText = (value: unknown): value is string => typeof value === "string";
const isBetween = (value: unknown, least: number, most: number) =>
  typeof value === "number" && value >= least && value <= most;

const KEY: Rule = [
  `a string of 1 to ${MAX_KEY_BYTES} bytes without space, tab or line break`,
  (value) =>
    isText(value) &&
    /^[^ \t\n\r]+$/.test(value) &&
    value.isWellFormed() &&
    new TextEncoder().encode(value).length <= MAX_KEY_BYTES,
];
const KEYS: Rule = [`1 to ${MAX_KEYS} in number`, (value) => isBetween(value, 1, MAX_KEYS)];
const TOKEN: Rule = ["a string that is not empty", (value) => isText(value) && value !== ""];
const CALLBACK: Rule = ["a function", (value) => typeof value === "function"];
const OPTIONS: Rule = ["an object", (value) => typeof value === "object"];

const OPTION_RULES = {
  timeout: [
    `a number of milliseconds from 0 to ${MAX_TIMEOUT_MS}`,
    (value: unknown) => isBetween(value, 0, MAX_TIMEOUT_MS),
  ],
  lease: [`a number of milliseconds from 1 to ${MAX_LEASE_MS}`, (value: unknown) => isBetween(value, 1, MAX_LEASE_MS)],
  limit: [
    `a whole number from 1 to ${MAX_LIMIT}`,
    (value: unknown) => Number.isInteger(value) && isBetween(value, 1, MAX_LIMIT),
  ],
  label: ["1 to 64 printable characters", (value: unknown) => isText(value) && LABEL.test(value)],
} as const satisfies Record<string, Rule>;

type OptionName = keyof typeof OPTION_RULES;

export function checkKey(key: unknown): asserts key is string {
  check("key", key, KEY);
}

export function checkToken(token: unknown): asserts token is string {
  // A token is a secret, even one that is not valid.
  check("token", token, TOKEN, "");
}

export function checkCallback(callback: unknown): void {
  check("callback", callback, CALLBACK);
}

export function termsOf(options: unknown): Terms {
  const { timeout = DEFAULT_TIMEOUT_MS, lease, limit = 1, label } = optionsOf<LockOptions>(options, OPTION_RULES);
  return { waitMs: Math.ceil(timeout), leaseMs: wholeMs(lease), limit, label };
}

export function isSeveral(keys: string | Keys): keys is Keys {
  return Array.isArray(keys);
}

/** Several keys with their terms, in the order given. A key's own options win over those of the request. */
export function wantedOf(keys: Keys, options: unknown): readonly WantedKey[] {
  check("keys", keys.length, KEYS);
  const { timeout: _, ...ownRules } = OPTION_RULES;
  const seen = new Set<string>();
  return keys.map((each) => {
    const { key, ...own } = Object(each) === each ? (each as KeyOptions) : { key: each as string };
    checkKey(key);
    if (seen.has(key)) throw badArgument(`key ${shownAs(key)} is given twice`);
    seen.add(key);
    optionsOf(own, ownRules);
    const given = Object.entries(own).filter(([, value]) => value !== undefined);
    return { key, terms: termsOf({ ...optionsOf<LockOptions>(options, OPTION_RULES), ...Object.fromEntries(given) }) };
  });
}

/** The lease of a renewal; undefined: the default of the service. */
export function leaseOf(options: unknown): number | undefined {
  const { lease: rule } = OPTION_RULES;
  return wholeMs(optionsOf<RenewOptions>(options, { lease: rule }).lease);
}

const wholeMs = (ms: number | undefined) => (ms === undefined ? undefined : Math.ceil(ms));

/** Throws if an option is unknown or invalid. An undefined one counts as absent, as do options that are null. */
function optionsOf<Options>(given: unknown, rules: Partial<Record<OptionName, Rule>>): Options {
  const options = given ?? {};
  check("options", options, OPTIONS);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const rule = rules[name as OptionName];
    if (!rule) throw badArgument(`option "${name}" is not known; known are: ${Object.keys(rules).join(", ")}`);
    check(`option "${name}"`, value, rule);
  }
  return options as Options;
}

/** Throws a `RangeError` for a number, and a `TypeError` for anything else that breaks the rule. */
function check(what: string, value: unknown, [mustBe, holds]: Rule, shown = `, not ${shownAs(value)}`): void {
  if (!holds(value)) throw badArgument(`${what} must be ${mustBe}${shown}`, typeof value === "number");
}

export function badArgument(text: string, isRange = false): Error {
  return isRange ? new RangeError(`RangeError: ${text}`) : new TypeError(`TypeError: ${text}`);
}

/** A value in a message, on one line and not too long. */
export function shownAs(value: unknown): string {
  if (isText(value)) return `${JSON.stringify(value.slice(0, MAX_SHOWN))}${value.length > MAX_SHOWN ? "…" : ""}`;
  if (Object(value) !== value) return String(value);
  return typeof value === "function" ? "a function" : "an object";
}
