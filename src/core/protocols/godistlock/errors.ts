/** Why a connection is closed, as one word after `ERR`. */
export type ErrorWord =
  | "invalid-keyword"
  | "invalid-message"
  | "invalid-lock"
  | "invalid-timeout"
  | "invalid-fence"
  | "line-too-long"
  | "read-timeout"
  | "auth-required"
  | "unknown-relay"
  | "forbidden"
  | "limit-mismatch"
  | "max-locks"
  | "max-waiters"
  | "too-many-requests"
  | "draining"
  | "no-quorum"
  | "internal";

/** How a WebSocket is closed after the word. */
export const CLOSE_CODES: Readonly<Record<ErrorWord, number>> = {
  "invalid-keyword": 4400,
  "invalid-message": 4400,
  "invalid-lock": 4400,
  "invalid-timeout": 4400,
  "invalid-fence": 4400,
  "line-too-long": 1009,
  "read-timeout": 4408,
  "auth-required": 4401,
  "unknown-relay": 4403,
  forbidden: 4403,
  "limit-mismatch": 4409,
  "max-locks": 4503,
  "max-waiters": 4503,
  "too-many-requests": 4503,
  draining: 4503,
  "no-quorum": 4503,
  internal: 1011,
};

/** Stands for a nonce that is not known, or that the error does not name. */
export const NO_NONCE = "-";

/** A line that breaks a rule of the protocol. */
export interface LineFault {
  readonly word: ErrorWord;
  readonly nonce: string;
}

export type Parsed<Message> =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly fault: LineFault };

/** The line that ends a connection. */
export function errorLine({ word, nonce }: LineFault): string {
  return `ERR ${nonce} ${word}\n`;
}
