import { STATUS_CODES } from "node:http";
import { type ErrorCode, errorBody, JSON_HEADERS } from "../../../http/reply/errors.ts";

interface Explanation {
  readonly detail?: string;
  readonly headers?: readonly string[];
}

/** Not in the table of errors: the Hono app never answers it. */
const NOT_IMPLEMENTED = "not_implemented";
type ListenerError = ErrorCode | typeof NOT_IMPLEMENTED;

/** The body of a refusal, in the form of all errors. */
export function refusalBody(error: ListenerError, detail?: string): string {
  return `${JSON.stringify(error === NOT_IMPLEMENTED ? { error, detail } : errorBody(error, detail))}\n`;
}

/** A whole reply of the listener itself, after which the connection is closed. */
export function refusal(status: number, error: ListenerError, { detail, headers = [] }: Explanation = {}): string {
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
  if (code === "HPE_HEADER_OVERFLOW") return refusal(431, "bad_request", { detail: "the headers are too long" });
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return refusal(408, "bad_request", { detail: "the request took too long to arrive" });
  if (code === "HPE_INVALID_METHOD") return refusal(501, NOT_IMPLEMENTED, { detail: "this method is not known" });
  if (code === "HPE_INVALID_URL") {
    return refusal(400, "bad_request", { detail: "the path has a character that must be percent-encoded" });
  }
  return refusal(400, "bad_request", { detail: "this is not a request of HTTP/1.1" });
}
