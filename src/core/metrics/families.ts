import { STATUSES, type Status } from "../protocols/statuses.ts";

/** The values a label may have: a closed set, or a pattern if the set is not known here. */
export type LabelRule = readonly string[] | RegExp;

interface CounterRule {
  readonly type: "counter";
  readonly help: string;
  readonly labels: Readonly<Record<string, LabelRule>>;
}
interface GaugeRule extends Omit<CounterRule, "type"> {
  readonly type: "gauge";
}
interface HistogramRule extends Omit<CounterRule, "type"> {
  readonly type: "histogram";
  /** Upper bounds, ascending; the unbounded bucket is implied. */
  readonly buckets: readonly number[];
}
export type FamilyRule = CounterRule | GaugeRule | HistogramRule;

export const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "LOCK", "UNLOCK", "OTHER"] as const;
export const UNMATCHED = "unmatched";

/** A route template; never an actual path, which may contain a key or a session. */
const PATH = /^(?:\/[!-{}~]{0,100}|unmatched)$/;
const HTTP_STATUS = /^[1-5][0-9]{2}$/;
const PROTOCOL_CODE = /^(?:[3-9]|1[0-5])$/;
const VERSION_TEXT = /^[!-{}~]{1,100}$/;

type StatusWord = (typeof STATUSES)[Status]["wire"];
type ErrorWord = Extract<StatusWord, `error_${string}`>;
const ERROR_WORDS = Object.values(STATUSES)
  .map(({ wire }) => wire)
  .filter(isErrorWord);

const KEY_CALLS = [
  ...[
    "acquire",
    "agreedHold",
    "cancel",
    "claim",
    "collect",
    "current",
    "describe",
    "enqueue",
    "fenceOfHolder",
    "giveBack",
    "leave",
    "listen",
  ],
  ...[
    "pickUp",
    "prolong",
    "prolongAgreed",
    "refresh",
    "relay",
    "release",
    "remove",
    "renew",
    "round",
    "steal",
    "wait",
    "watch",
  ],
] as const;

const ofRequest = { method: METHODS, path: PATH, status: HTTP_STATUS } as const;
const kind = ["lock", "semaphore"] as const;

const HTTP_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const LOCK_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const CHANGES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000];
const LATE_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 2, 5, 30, 60];

const counter = <const Labels extends CounterRule["labels"]>(help: string, labels: Labels) =>
  ({ type: "counter", help, labels }) as const;
const gauge = (help: string) => ({ type: "gauge", help, labels: {} }) as const;
/** A gauge that may be an estimate, and is then labelled `estimated="true"`. */
const countOfKeys = (help: string) => gauge(`${help} Labelled \`estimated\` if it is an estimate.`);
const histogram = <const Labels extends CounterRule["labels"]>(
  help: string,
  labels: Labels,
  buckets: readonly number[],
) => ({ type: "histogram", help, labels, buckets }) as const;

/**
 * Everything the service measures, in the order of the exposition, names without their prefix. No label ever contains a
 * key, a token, a session or an address.
 */
export const FAMILIES = {
  http_requests_total: counter("Finished HTTP requests.", ofRequest),
  http_request_duration_seconds: histogram("Time from request to reply.", ofRequest, HTTP_SECONDS),
  ready: gauge("1 if the service takes requests."),
  draining: gauge("1 while new locks and sessions are refused."),
  uptime_seconds: gauge("Time since the service began to count, in this process."),
  connections: gauge("Live sessions of all transports."),
  http_sessions: gauge("Live HTTP sessions."),
  ws_connections: gauge("Live WebSocket sessions."),
  tcp_connections: gauge("Live TCP sessions."),
  locks_held: countOfKeys("Keys with limit 1 that have a holder."),
  lock_waiters: countOfKeys("Waiters on keys with limit 1."),
  semaphore_holders: countOfKeys("Slots held on keys with a limit above 1."),
  semaphore_waiters: countOfKeys("Waiters on keys with a limit above 1."),
  keys: gauge("Keys that exist, held or idle."),
  keys_sampled: gauge("Keys that were looked at for the figures on holders and waiters."),
  keys_unreachable: countOfKeys("Keys that exist but cannot be read."),
  grants_total: counter("Slots granted.", { kind, how: ["immediate", "queued"] }),
  releases_total: counter("Holds that ended, by reason.", {
    kind,
    reason: ["released", "expired", "disconnect", "gone", "stolen"],
  }),
  renewals_total: counter("Attempts to renew a lease.", { kind, result: ["ok", "error"] }),
  acquire_timeouts_total: counter("Requests that ran out of time without a grant.", { kind }),
  errors_total: counter("Replies with an error of their own, by its word on the wire.", { status: ERROR_WORDS }),
  protocol_errors_total: counter("Requests that broke the wire protocol, by code.", { code: PROTOCOL_CODE }),
  auth_failures_total: counter("Refused credentials.", { transport: ["tcp", "ws", "http"] }),
  rate_limited_total: counter("HTTP requests refused by the rate limit.", {}),
  keys_pruned_total: counter("Idle keys forgotten.", {}),
  notifications_total: counter("Grants announced to sessions, by what came of it.", {
    result: ["picked_up", "noted", "gone", "retried"],
  }),
  lock_wait_seconds: histogram("Time from a request to its grant.", { kind }, LOCK_SECONDS),
  lock_hold_seconds: histogram("Time from a grant to the end of the hold.", { kind }, LOCK_SECONDS),
  expiry_lateness_seconds: histogram("Time from the end of a lease to the hand-over.", {}, LATE_SECONDS),
  commit_seconds: histogram("Time that a commit took. On Node only.", {}, COMMIT_SECONDS),
  commit_changes: histogram("Changes that a commit stored. On Node only.", {}, CHANGES),
  commits_failed_total: counter("Commits that failed. On Node only.", {}),
  wal_bytes: gauge("Size of the database's log file. On Node only."),
  build_info: { type: "gauge", help: "1, labelled with the version that runs.", labels: { version: VERSION_TEXT } },
  listings_total: counter("Calls of keys to the directory that lists them, by what came of it. On Cloudflare only.", {
    result: ["listed", "admitted", "refused", "unlisted", "failed"],
  }),
  listing_backlog: gauge(
    "Keys that were listed late in the last minute: while there are any, others may be missing. On Cloudflare only.",
  ),
  key_call_retries_total: counter("Calls to keys that were made again because they failed. On Cloudflare only.", {}),
  rpc_calls_total: counter("Calls to keys' objects, as their callers see them. On Cloudflare only.", {
    call: KEY_CALLS,
    outcome: ["answered", "failed"],
  }),
} as const satisfies Record<string, FamilyRule>;

export type FamilyName = keyof typeof FAMILIES;

type NamesOf<Type extends FamilyRule["type"]> = {
  [Name in FamilyName]: (typeof FAMILIES)[Name]["type"] extends Type ? Name : never;
}[FamilyName];
export type CounterName = NamesOf<"counter">;
export type GaugeName = NamesOf<"gauge">;
export type HistogramName = NamesOf<"histogram">;

type ValueOf<Rule> = Rule extends readonly (infer Value)[] ? Value : string | number;

/** The labels that a series of this family must have, each with its allowed values. */
export type LabelsOf<Name extends FamilyName> = {
  readonly [Label in keyof (typeof FAMILIES)[Name]["labels"]]: ValueOf<(typeof FAMILIES)[Name]["labels"][Label]>;
};

/** Whether a status word is counted by `errors_total`. */
export function isErrorWord(word: StatusWord): word is ErrorWord {
  return word.startsWith("error_");
}

export function isFamily(name: string): name is FamilyName {
  return Object.hasOwn(FAMILIES, name);
}

export function isAllowed(rule: LabelRule, value: string): boolean {
  return rule instanceof RegExp ? rule.test(value) : rule.includes(value);
}
