import type { MiddlewareHandler } from "hono";
import type { Config } from "../../core/config/config.ts";
import { echoed, fail } from "../reply/errors.ts";
import type { AppEnv } from "../request/context.ts";

/** The maximum length of a DNS name. */
const MAX_LOGGED_CHARS = 253;

/**
 * The host in a `Host` header: in lower case, without port and without the dot that may end a name. Undefined when it
 * is neither a name nor an address as browsers write them.
 */
export function hostIn(header: string): string | undefined {
  const [, address, name] = /^(?:(\[[0-9a-f:.]+\])|([\w-]+(?:\.[\w-]+)*)\.?)(?::[0-9]*)?$/i.exec(header) ?? [];
  if (address === undefined) return name?.toLowerCase();
  const url = `http://${address}`;
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

function isIPv4(host: string): boolean {
  const parts = host.split(".");
  return (
    parts.length === 4 &&
    parts.every((part) => String(Number(part)) === part && /^[0-9]{1,3}$/.test(part) && Number(part) < 256)
  );
}

/** Whether the host can only be the client's own machine: browsers resolve these names themselves. */
export function isLoopback(host: string | undefined): boolean {
  if (host === undefined) return false;
  return isLoopbackName(host) || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}

function isLoopbackName(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost");
}

/** Whether an `Origin` header is that of a page from this machine. */
export function isLoopbackOrigin(origin: string): boolean {
  return isLoopback(hostIn(/^https?:\/\/(.*)$/s.exec(origin)?.[1] ?? ""));
}

/**
 * Whether the service answers to this `Host`. An attacker can point their own DNS name at the service's address, so
 * that their page shares its origin (DNS rebinding): such a name is in no list. IP addresses pass, because they cannot
 * be rebound. So does a request without a `Host`: browsers always send one, and a service binding sends none (workerd
 * 2026-11).
 */
export function isHostAllowed({ allowedHosts }: Pick<Config, "allowedHosts">, header: string | undefined): boolean {
  if (allowedHosts.length === 0 || allowedHosts.includes("*")) return true;
  if (header === undefined) return true;
  const host = hostIn(header);
  if (host === undefined) return false;
  return isLoopbackName(host) || host.startsWith("[") || isIPv4(host) || allowedHosts.includes(host);
}

/** Runs before CORS and before anything is served: a preflight under a foreign name is refused as well. */
export const checkHost: MiddlewareHandler<AppEnv> = async (context, next) => {
  const host = context.req.header("Host");
  if (isHostAllowed(context.get("config"), host)) return next();
  const advice = "if the name is yours, add it to --http-allowed-hosts (HTTP_ALLOWED_HOSTS)";
  context.env.service.log("warn", "host_forbidden", { host: host?.slice(0, MAX_LOGGED_CHARS), advice });
  return fail(context, "host_forbidden", `the service does not answer to the name ${echoed(host ?? "")}; ${advice}`);
};
