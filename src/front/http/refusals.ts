import type { Duplex } from "node:stream";

const REASONS: Readonly<Record<number, string>> = {
  400: "Bad Request",
  408: "Request Timeout",
  426: "Upgrade Required",
  431: "Request Header Fields Too Large",
  501: "Not Implemented",
  503: "Service Unavailable",
};

export const ERROR_HEADERS = {
  "Content-Type": "application/json",
  "X-Content-Type-Options": "nosniff",
  "Cache-Control": "no-store",
} as const;

export const errorBody = (error: string, detail?: string) => `${JSON.stringify({ error, detail })}\n`;

interface Explanation {
  readonly detail?: string;
  readonly headers?: readonly string[];
}

/** A reply of the front door itself, in the same format as all errors of the service. */
export function refusal(status: number, error: string, { detail, headers = [] }: Explanation = {}): string {
  const body = errorBody(error, detail);
  const lines = [
    `HTTP/1.1 ${status} ${REASONS[status] ?? ""}`,
    ...Object.entries(ERROR_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    ...headers,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

export const UNAVAILABLE = refusal(503, "unavailable", { headers: ["Retry-After: 1"] });

const LINGER_MS = 500;

/** Sends a final reply and keeps reading for a moment: closing with unread input would reset the connection first. */
export function sayGoodbye(client: Duplex, words: string | Buffer): void {
  client.on("error", () => client.destroy());
  client.resume();
  client.end(words);
  const timer = setTimeout(() => client.destroy(), LINGER_MS);
  timer.unref();
  client.once("close", () => clearTimeout(timer));
}
