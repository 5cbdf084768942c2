import { isIP } from "node:net";
import { UsageFailure } from "./failure.ts";

export interface Address {
  /** A host name, an IP address without brackets, or `*` for every interface. */
  readonly host: string;
  readonly port: number;
}

const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?$/i;

export const HOST_RULE = "must be a host name, an IP address or *";
export const PORT_RULE = "must be a whole number from 1 to 65535";

/** The host without brackets, or undefined if it is not valid. */
export function parseHost(text: string): string | undefined {
  const bare = /^\[.*\]$/.test(text) ? text.slice(1, -1) : text;
  if (bare === "*" || isIP(bare) !== 0) return bare;
  // Digits and dots that form no IP address are a mistyped one, not a name.
  return HOST_NAME.test(bare) && !/^[0-9.]+$/.test(bare) ? bare : undefined;
}

export function parsePort(text: string): number | undefined {
  if (!/^[0-9]{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port >= 1 && port <= 65_535 ? port : undefined;
}

/** Reads `HOST:PORT`, `[::1]:PORT` or `:PORT` (every interface). */
export function parseAddress(label: string, text: string): Address {
  const colon = text.lastIndexOf(":");
  const host = colon === 0 ? "*" : parseHost(text.slice(0, Math.max(colon, 0)));
  const port = parsePort(text.slice(colon + 1));
  if (colon < 0 || host === undefined || port === undefined) {
    throw new UsageFailure(`${label} must look like 127.0.0.1:6388`);
  }
  return { host, port };
}

export function formatAddress({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** An IPv4 client seen through an IPv6 listener keeps its IPv4 address. */
export function plainIp(address: string): string {
  const mapped = /^::ffff:([0-9.]+)$/i.exec(address);
  return mapped?.[1] ?? address;
}
