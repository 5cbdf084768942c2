/** The client protocol: a program asks for locks. */
import type { Parsed } from "./errors.ts";
import { type Fields, parseLine } from "./fields.ts";

/** A request of a client. Timeouts are milliseconds. */
export type ClientRequest =
  | { readonly type: "hello"; readonly nonce: string }
  | { readonly type: "on" | "try"; readonly lock: string; readonly timeoutMs: number; readonly nonce: string }
  | {
      readonly type: "refresh";
      readonly lock: string;
      readonly fence: bigint;
      readonly timeoutMs: number;
      readonly nonce: string;
    }
  | { readonly type: "is" | "off"; readonly lock: string; readonly nonce: string }
  | { readonly type: "stats"; readonly nonce: string }
  | { readonly type: "auth"; readonly token: string; readonly nonce: string };

/** A reply to a client, other than an `ERR`. Fence 0 means that the lock is taken and its fence not known. */
export type ClientReply =
  | { readonly type: "hello"; readonly nonce: string; readonly id: string; readonly version: string }
  | { readonly type: "give" | "lock"; readonly nonce: string; readonly fence: bigint }
  | { readonly type: "no"; readonly nonce: string }
  | { readonly type: "stats"; readonly nonce: string; readonly name: string; readonly value: bigint }
  | { readonly type: "statsend"; readonly nonce: string };

export function parseClientRequest(line: Uint8Array): Parsed<ClientRequest> {
  return parseLine(line, requestOf);
}

function requestOf(fields: Fields): ClientRequest {
  switch (fields.keyword) {
    case "HELLO": {
      const { nonce } = fields.expect([2], 1);
      fields.word(0);
      return { type: "hello", nonce };
    }
    case "ON":
    case "TRY": {
      const { nonce } = fields.expect([3], 2);
      const type = fields.keyword === "ON" ? "on" : "try";
      return { type, nonce, lock: fields.lock(0), timeoutMs: fields.timeout(1) };
    }
    case "REFRESH": {
      const { nonce } = fields.expect([4], 3);
      return { type: "refresh", nonce, lock: fields.lock(0), fence: fields.fence(1), timeoutMs: fields.timeout(2) };
    }
    case "IS":
    case "OFF": {
      const { nonce } = fields.expect([2], 1);
      return { type: fields.keyword === "IS" ? "is" : "off", nonce, lock: fields.lock(0) };
    }
    case "STATS":
      return { type: "stats", nonce: fields.expect([1], 0).nonce };
    case "AUTH": {
      const { nonce } = fields.expect([2], 1);
      return { type: "auth", nonce, token: fields.token(0) };
    }
    default:
      throw fields.fault("invalid-keyword");
  }
}

export function formatClientReply(reply: ClientReply): string {
  switch (reply.type) {
    case "hello":
      return `HELLO ${reply.nonce} ${reply.id} ${reply.version}\n`;
    case "give":
    case "lock":
      return `${reply.type.toUpperCase()} ${reply.nonce} ${reply.fence}\n`;
    case "no":
      return `NO ${reply.nonce}\n`;
    case "stats":
      return `STATS ${reply.nonce} ${reply.name} ${reply.value}\n`;
    case "statsend":
      return `STATSEND ${reply.nonce}\n`;
  }
}
