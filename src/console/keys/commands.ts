/** The service's address, and whether commands need a token. */
export interface ServiceAddress {
  readonly origin: string;
  readonly hostname: string;
  readonly needsToken: boolean;
}

/** Opens a session and takes a lock with it, over HTTP. */
export function restCommand({ origin, needsToken }: ServiceAddress): string {
  const auth = needsToken ? ` -H "Authorization: Bearer $TOKEN"` : "";
  const session = `curl -s -X POST ${origin}/v1/sessions${auth} -H "X-Holdfast-Label: $USER with curl"`;
  return [
    `session=$(${session} | grep -oE '[0-9a-f]{32}') &&`,
    `curl -s ${origin}/v1/locks/hello${auth} -H "X-Dflockd-Session: $session" -d '{}'`,
  ].join(" ");
}

/** Takes a lock over the wire protocol and keeps the connection, and with it the lock, for half a minute. */
export function wireCommand({ hostname, needsToken }: ServiceAddress): string {
  const lines = needsToken ? `printf 'auth\\n_\\n%s\\nl\\nhello\\n10\\n' "$TOKEN"` : `printf 'l\\nhello\\n10\\n'`;
  return `(${lines}; sleep 30) | nc ${hostname.replace(/^\[|\]$/g, "")} 6388`;
}

/** Takes a lock with the client, and releases it. */
export function clientProgram({ origin, needsToken }: ServiceAddress): string {
  const token = needsToken ? ", token: process.env.TOKEN" : "";
  return [
    'import { connect } from "holdfast-client";',
    `const locks = connect("${origin}", { label: "my program"${token} });`,
    'await locks.request("hello", () => new Promise((done) => setTimeout(done, 20_000)));',
    "await locks.close();",
  ].join("\n");
}
