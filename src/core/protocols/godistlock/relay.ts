/** The relay protocol: independent deployments agree on one holder. */
import type { Parsed } from "./errors.ts";
import { type Fields, parseLine } from "./fields.ts";

/** The WebSocket subprotocol of a connection between deployments. */
export const RELAY_SUBPROTOCOL = "godistlock-relay.v1";

/** What one deployment asks another about a lock. */
export type RelayRequest =
  | { readonly type: "auth"; readonly token: string; readonly nonce: string }
  | { readonly type: "hello"; readonly id: string; readonly version: string; readonly nonce: string }
  | { readonly type: "prop" | "sched" | "off"; readonly lock: string; readonly nonce: string }
  | {
      readonly type: "comm";
      readonly lock: string;
      readonly timeoutMs: number;
      readonly nonce: string;
      /** Only between holdfast deployments. */
      readonly fence?: bigint;
    };

/** Status 0 means yes, in all of them. */
export type RelayReply =
  | { readonly type: "howdy"; readonly nonce: string; readonly id: string; readonly version: string }
  | {
      readonly type: "stat";
      readonly nonce: string;
      readonly status: number;
      /** Only between holdfast deployments: the highest fence stored for the key. */
      readonly floor?: bigint;
    }
  | { readonly type: "ack" | "conf"; readonly nonce: string; readonly status: number }
  | { readonly type: "err"; readonly text: string };

export type RelayLine =
  | { readonly is: "request"; readonly request: RelayRequest }
  | { readonly is: "reply"; readonly reply: RelayReply };

/** `STAT 0`: the asker has a preliminary hold now. The others say why it has not. */
export const STAT = { agreed: 0, heldHere: 1, heldForAnother: 2, noQuorum: 3 } as const;

const PREFIX = "holdfast/";

/** Deployments with such a version exchange fences. */
export function exchangesFences(version: string): boolean {
  return version.startsWith(PREFIX);
}

/** How this service names its version. */
export function versionName(version: string): string {
  return PREFIX + version;
}

/** Parses a line from another deployment, whichever of the two dialled. */
export function parseRelayLine(line: Uint8Array): Parsed<RelayLine> {
  return parseLine(line, (fields) => {
    const reply = replyOf(fields);
    return reply ? { is: "reply", reply } : { is: "request", request: requestOf(fields) };
  });
}

function requestOf(fields: Fields): RelayRequest {
  switch (fields.keyword) {
    case "AUTH": {
      const { nonce } = fields.expect([2], 1);
      return { type: "auth", nonce, token: fields.token(0) };
    }
    case "HELLO": {
      const { nonce } = fields.expect([3], 2);
      return { type: "hello", nonce, id: fields.word(0), version: fields.word(1) };
    }
    case "PROP":
    case "SCHED":
    case "OFF": {
      const { nonce } = fields.expect([2], 1);
      return { type: TYPES[fields.keyword], nonce, lock: fields.lock(0) };
    }
    case "COMM": {
      const { nonce } = fields.expect([3, 4], 2);
      const lock = fields.lock(0);
      const fence = fields.count === 4 ? { fence: fields.fence(3) } : undefined;
      return { type: "comm", nonce, lock, timeoutMs: fields.timeout(1), ...fence };
    }
    default:
      throw fields.fault("invalid-keyword");
  }
}

const TYPES = { PROP: "prop", SCHED: "sched", OFF: "off" } as const;

function replyOf(fields: Fields): RelayReply | undefined {
  switch (fields.keyword) {
    case "HOWDY": {
      const { nonce } = fields.expect([3], 0);
      return { type: "howdy", nonce, id: fields.word(1), version: fields.word(2) };
    }
    case "STAT": {
      const { nonce } = fields.expect([2, 3], 0);
      const floor = fields.count === 3 ? { floor: fields.fence(2) } : undefined;
      return { type: "stat", nonce, status: fields.status(1), ...floor };
    }
    case "ACK":
    case "CONF": {
      const { nonce } = fields.expect([2], 0);
      return { type: fields.keyword === "ACK" ? "ack" : "conf", nonce, status: fields.status(1) };
    }
    case "ERR":
      return { type: "err", text: fields.rest(0) };
    default:
      return undefined;
  }
}

export function formatRelayRequest(request: RelayRequest): string {
  switch (request.type) {
    case "auth":
      return `AUTH ${request.token} ${request.nonce}\n`;
    case "hello":
      return `HELLO ${request.id} ${request.version} ${request.nonce}\n`;
    case "prop":
    case "sched":
    case "off":
      return `${request.type.toUpperCase()} ${request.lock} ${request.nonce}\n`;
    case "comm": {
      const fence = request.fence === undefined ? "" : ` ${request.fence}`;
      return `COMM ${request.lock} ${request.timeoutMs} ${request.nonce}${fence}\n`;
    }
  }
}

export function formatRelayReply(reply: RelayReply): string {
  switch (reply.type) {
    case "howdy":
      return `HOWDY ${reply.nonce} ${reply.id} ${reply.version}\n`;
    case "stat":
      return `STAT ${reply.nonce} ${reply.status}${reply.floor === undefined ? "" : ` ${reply.floor}`}\n`;
    case "ack":
    case "conf":
      return `${reply.type.toUpperCase()} ${reply.nonce} ${reply.status}\n`;
    case "err":
      return `ERR ${reply.text}\n`;
  }
}
