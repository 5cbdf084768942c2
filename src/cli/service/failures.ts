import { CommandError, type ErrorCode } from "../output/errors.ts";
import type { Target } from "./target.ts";

/** Network and TLS error codes in words. Other codes are shown as they are. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was cut",
  EPIPE: "the connection was cut",
  ENOTFOUND: "no such host",
  EAI_AGAIN: "the host name cannot be looked up",
  ETIMEDOUT: "no answer in time",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the network",
  DEPTH_ZERO_SELF_SIGNED_CERT: "its certificate is self-signed: name its authority in NODE_EXTRA_CA_CERTS",
  SELF_SIGNED_CERT_IN_CHAIN: "its certificate is self-signed: name its authority in NODE_EXTRA_CA_CERTS",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "its certificate is signed by an unknown authority: name it in NODE_EXTRA_CA_CERTS",
  CERT_HAS_EXPIRED: "its certificate has expired",
  ERR_TLS_CERT_ALTNAME_INVALID: "its certificate is for another name",
};

/** No connection could be made, or it broke before the answer. */
export function unreachable({ url }: Target, cause: unknown): CommandError {
  const { code, message } = cause as { code?: unknown; message?: unknown };
  const name = typeof code === "string" ? code : "";
  if (name.startsWith("HPE_") || name === "EPROTO") return nonsense({ url }, "no HTTP");
  const reason = REASONS[name] ?? (name || String(message ?? cause).split("\n", 1)[0]);
  const advice = "start one with `holdfast serve`, or name another with --url or HOLDFAST_URL";
  return new CommandError("unreachable", `no server at ${url} (${reason}): ${advice}`, { cause });
}

/** The answer does not come from a holdfast server. */
export function nonsense({ url }: Pick<Target, "url">, answer: string): CommandError {
  return new CommandError("protocol", `${url} does not answer like a holdfast server (${answer}): check --url`);
}

export function tokenRefused({ url, token }: Target): CommandError {
  const advice = "with --token-file, --token or HOLDFAST_TOKEN";
  const line =
    token === undefined
      ? `the server at ${url} wants a token: give it ${advice}`
      : `the server at ${url} refused the token: give another ${advice}`;
  return new CommandError("unauthorized", line);
}

export function draining({ url }: Target): CommandError {
  return new CommandError("draining", `the server at ${url} is draining and takes no new work: try again later`);
}

export function full({ url }: Target, what: string): CommandError {
  return new CommandError("full", `the server at ${url} is full (${what}): try again later`);
}

export function limitMismatch(what: string): CommandError {
  return new CommandError("limit_mismatch", `${what}: give the same --limit`);
}

/** Turns an error code of the HTTP API into an error for the user of a command. */
export function refusal(target: Target, status: number, code: string, detail: string | undefined): CommandError {
  const { url } = target;
  const known: Partial<Record<string, [ErrorCode, string]>> = {
    forbidden: ["forbidden", `the server at ${url} does not allow this with the ticket or token given`],
    host_forbidden: [
      "host_forbidden",
      `the server does not answer to the name in ${url}: use its IP address, or start it with --http-allowed-hosts`,
    ],
    rate_limited: ["rate_limited", `too many requests to ${url} from here: try again in a second`],
    not_held: ["not_held", "this token holds nothing: the lock was released, or its lease has ended"],
    session_gone: ["session_gone", "the session is gone, and with it what it held: it was ended, or idle for too long"],
    lease_expired: ["lost", "the lock was granted, but its lease ended before it was waited for: enqueue again"],
    already_enqueued: ["already_enqueued", "the session has a place in this queue already: wait for it"],
    not_enqueued: ["not_enqueued", "the session has no place in this queue: enqueue first"],
    not_found: ["unavailable", `the server at ${url} cannot do that: ${detail ?? "no reason given"}`],
    backup_refused: ["unavailable", `the server at ${url} made no copy: ${detail ?? "no reason given"}`],
    bad_request: ["usage", `the server at ${url} refuses the request: ${detail ?? "no reason given"}`],
    unavailable: ["unavailable", `a part of the server at ${url} does not answer: try again`],
    misconfigured: [
      "unavailable",
      `the server at ${url} is misconfigured (${detail ?? "its log names the variable"}): it serves nothing until that is fixed`,
    ],
  };
  if (code === "unauthorized") return tokenRefused(target);
  if (code === "draining") return draining(target);
  if (code === "limit_mismatch")
    return limitMismatch(detail?.split(";", 1)[0] ?? "the key is in use with another limit");
  if (code.startsWith("max_")) return full(target, code);
  const [error, message] = known[code] ?? [];
  if (error && message !== undefined) return new CommandError(error, message);
  return new CommandError("internal", `the server at ${url} failed (${status} ${code}): look at its log`);
}
