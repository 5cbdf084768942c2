import { STATUS_CODES } from "node:http";
import { JSON_HEADERS } from "../../../http/reply/errors.ts";

interface Explanation {
  readonly detail?: string;
  readonly headers?: readonly string[];
}

/** The body of a refusal, in the form of all errors. */
export const refusalBody = (error: string, detail?: string) => `${JSON.stringify({ error, detail })}\n`;

/** A whole reply of the listener itself, after which the connection is closed. */
export function refusal(status: number, error: string, { detail, headers = [] }: Explanation = {}): string {
  const body = refusalBody(error, detail);
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    ...Object.entries(JSON_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...headers,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Requests that cannot be parsed. */
export function parseRefusal(code: string | undefined): string {
  if (code === "HPE_HEADER_OVERFLOW") return refusal(431, "bad_request");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return refusal(408, "bad_request");
  if (code === "HPE_INVALID_METHOD") return refusal(501, "not_implemented");
  return refusal(400, "bad_request");
}
