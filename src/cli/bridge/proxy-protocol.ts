/**
 * The PROXY protocol header (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt), with which a TCP proxy
 * passes on the address of its client. Versions 1 (a text line) and 2 (binary).
 */
import { isIPv4, isIPv6 } from "node:net";

export type ProxyHeader =
  | { readonly kind: "incomplete" }
  | { readonly kind: "invalid" }
  /**
   * `address` is undefined if the proxy speaks for itself or does not know it. The stream proper starts at `length`.
   */
  | { readonly kind: "header"; readonly address: string | undefined; readonly length: number };

const INCOMPLETE: ProxyHeader = { kind: "incomplete" };
const INVALID: ProxyHeader = { kind: "invalid" };

const V1_START = Buffer.from("PROXY ");
const V1_LONGEST = 107;
const V2_START = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
const V2_FIXED = 16;
/** Room for the addresses and generous extensions; anything that announces more is no proxy. */
const V2_LONGEST_REST = 4_096;

/**
 * Parses the header at the start of a connection from the bytes seen so far. More bytes never change a result other
 * than `incomplete`.
 */
export function parseProxyHeader(bytes: Buffer): ProxyHeader {
  if (startsLike(bytes, V2_START)) return parseV2(bytes);
  return startsLike(bytes, V1_START) ? parseV1(bytes) : INVALID;
}

function startsLike(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.subarray(0, length).equals(start.subarray(0, length));
}

function parseV1(bytes: Buffer): ProxyHeader {
  const end = bytes.subarray(0, V1_LONGEST).indexOf("\r\n");
  if (end < 0) return bytes.length >= V1_LONGEST ? INVALID : INCOMPLETE;
  const length = end + 2;
  const [, family, source, destination, sourcePort, destinationPort, ...more] = bytes
    .toString("latin1", 0, end)
    .split(" ");
  // "UNKNOWN" may be followed by anything, which must be ignored.
  if (family === "UNKNOWN") return { kind: "header", address: undefined, length };
  const isAddress = family === "TCP4" ? isIPv4 : family === "TCP6" ? isIPv6 : () => false;
  const isGood =
    isAddress(source ?? "") &&
    isAddress(destination ?? "") &&
    isPort(sourcePort) &&
    isPort(destinationPort) &&
    more.length === 0;
  return isGood ? { kind: "header", address: source, length } : INVALID;
}

function isPort(text: string | undefined): boolean {
  return text !== undefined && /^(0|[1-9][0-9]{0,4})$/.test(text) && Number(text) <= 65_535;
}

const COMMANDS = { local: 0x20, proxy: 0x21 } as const;
const FAMILIES = { unspecified: 0x00, tcp4: 0x11, tcp6: 0x21 } as const;

function parseV2(bytes: Buffer): ProxyHeader {
  if (bytes.length < V2_FIXED) return INCOMPLETE;
  const command = bytes.readUInt8(12);
  const family = bytes.readUInt8(13);
  const rest = bytes.readUInt16BE(14);
  if ((command !== COMMANDS.local && command !== COMMANDS.proxy) || rest > V2_LONGEST_REST) return INVALID;
  const length = V2_FIXED + rest;
  if (bytes.length < length) return INCOMPLETE;
  if (command === COMMANDS.local || family === FAMILIES.unspecified)
    return { kind: "header", address: undefined, length };
  if (family === FAMILIES.tcp4 && rest >= 12) {
    return { kind: "header", address: bytes.subarray(16, 20).join("."), length };
  }
  if (family === FAMILIES.tcp6 && rest >= 36) return { kind: "header", address: ipv6(bytes.subarray(16, 32)), length };
  return INVALID;
}

/** The address in its canonical short form. */
function ipv6(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16));
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}
