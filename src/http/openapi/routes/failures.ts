import { type ErrorCode, errorBody, errorRule } from "../../reply/errors.ts";

/** Error replies shared by operations, by their name in the document, with the codes that each can carry. */
const FAILURES = {
  BadRequest: ["bad_request"],
  Unauthorized: ["unauthorized"],
  Forbidden: ["forbidden"],
  UpgradeForbidden: ["origin_forbidden", "forbidden"],
  NotFound: ["not_found"],
  NotHeld: ["not_held"],
  MethodNotAllowed: ["method_not_allowed"],
  ClientCanceled: ["client_canceled"],
  AcquireConflict: ["limit_mismatch", "lease_expired"],
  EnqueueConflict: ["already_enqueued", "limit_mismatch"],
  WaitConflict: ["not_enqueued", "lease_expired"],
  LimitMismatch: ["limit_mismatch"],
  ForeignHolder: ["foreign_holder"],
  SessionGone: ["session_gone"],
  HostForbidden: ["host_forbidden"],
  UpgradeRequired: ["upgrade_required"],
  PreconditionRequired: ["precondition_required"],
  RateLimited: ["rate_limited"],
  Failed: ["internal", "misconfigured"],
  SessionFailed: ["session_create_failed", "internal", "misconfigured"],
  GrantRefused: ["draining", "max_locks", "max_waiters", "fence_persistence", "unavailable"],
  HandOverRefused: ["fence_persistence", "unavailable"],
  SessionRefused: ["draining", "max_sessions", "max_sessions_per_ip", "unavailable"],
  ConnectionRefused: ["max_connections", "max_connections_per_ip", "unavailable"],
  BackupRefused: ["backup_refused", "unavailable"],
  Unavailable: ["unavailable"],
} as const satisfies Record<string, readonly [ErrorCode, ...ErrorCode[]]>;

export type FailureName = keyof typeof FAILURES;

const HEADERS: Readonly<Record<string, { description: string; schema: object }>> = {
  "WWW-Authenticate": { description: "How to authenticate.", schema: { type: "string", enum: ["Bearer"] } },
  "Retry-After": { description: "Seconds to wait before trying again.", schema: { type: "integer", minimum: 1 } },
  Upgrade: { description: "What to upgrade to.", schema: { type: "string", enum: ["websocket"] } },
  Allow: { description: "The methods of this path.", schema: { type: "string" } },
};

/** Headers that the caller of `fail` sets, not the table of errors. */
const CALLERS_HEADERS: Readonly<Partial<Record<ErrorCode, string>>> = {
  rate_limited: "Retry-After",
  method_not_allowed: "Allow",
};

/** References to shared error replies, by status: what an operation lists under `responses`. */
export function failures(...names: readonly FailureName[]): Record<number, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [statusOf(name), { $ref: `#/components/responses/${name}` }]));
}

function statusOf(name: FailureName): number {
  return errorRule(FAILURES[name][0]).status;
}

/** The shared error replies as components of the document. */
export function failureComponents() {
  return (Object.keys(FAILURES) as FailureName[]).map((name) => {
    const codes: readonly [ErrorCode, ...ErrorCode[]] = FAILURES[name];
    const component = {
      description: codes.map((code) => (codes.length > 1 ? `\`${code}\`: ` : "") + errorRule(code).when).join("\n\n"),
      ...headersOf(codes),
      content: {
        "application/json": {
          schema: errorSchema(codes),
          examples: Object.fromEntries(codes.map((code) => [code, { value: example(code) }])),
        },
      },
    };
    return { name, component };
  });
}

/** An error reply that can carry these codes. Whether it has a detail follows from the codes' rules. */
function errorSchema(codes: readonly ErrorCode[]) {
  const rules = codes.map((code) => errorRule(code).detail);
  const mayHaveDetail = rules.some((rule) => rule !== undefined);
  const mustHaveDetail = rules.every((rule) => rule !== undefined);
  return {
    type: "object" as const,
    properties: {
      error: { type: "string" as const, enum: [...codes] },
      ...(mayHaveDetail && { detail: { type: "string" as const, description: "For people; may change." } }),
    },
    required: mustHaveDetail ? ["error", "detail"] : ["error"],
    additionalProperties: false,
  };
}

function headersOf(codes: readonly ErrorCode[]) {
  const sets = codes.map((code) => [...Object.keys(errorRule(code).headers ?? {}), CALLERS_HEADERS[code] ?? []].flat());
  const names = [...new Set(sets.flat())];
  if (names.length === 0) return {};
  const isAlways = (name: string) => sets.every((set) => set.includes(name));
  return {
    headers: Object.fromEntries(names.map((name) => [name, { required: isAlways(name), ...HEADERS[name] }])),
  };
}

function example(code: ErrorCode): { error: ErrorCode; detail?: string } {
  if (code === "bad_request") return { error: code, detail: "limit is required" };
  if (code === "misconfigured") return { error: code, detail: "invalid configuration variable READ_TIMEOUT_S" };
  return errorBody(code);
}
