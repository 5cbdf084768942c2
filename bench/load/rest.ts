/** A client of the REST API: one session, one connection that is kept alive, and no more of HTTP than that takes. */
import { type Address, Channel, type Framing } from "./channel.ts";
import { type LockClient, WAIT_SECONDS } from "./client.ts";

const HEAD_END = "\r\n\r\n";

const RESPONSES: Framing = {
  wrap: (request) => request,
  lengthOf(text) {
    const end = text.indexOf(HEAD_END);
    if (end < 0) return 0;
    const [, length] = /\r\ncontent-length: *(\d+)/i.exec(text) ?? [];
    const total = end + HEAD_END.length + Number(length ?? 0);
    return text.length < total ? 0 : total;
  },
  unwrap: (reply) => reply,
};

export async function openRest(address: Address): Promise<LockClient> {
  const channel = await Channel.open(address, RESPONSES);
  const host = `Host: ${address.host}:${address.port}\r\n`;
  const post = (path: string, body: string, headers = "") =>
    `POST ${path} HTTP/1.1\r\n${host}${headers}Content-Length: ${body.length}${HEAD_END}${body}`;
  const { session_id: session } = bodyOf<{ readonly session_id: string }>(
    await channel.asked(post("/v1/sessions", "")),
  );
  const ours = `X-Dflockd-Session: ${session}\r\n`;
  const json = `${ours}Content-Type: application/json\r\n`;
  const wish = JSON.stringify({ acquire_timeout_s: WAIT_SECONDS });
  return {
    acquire(key, granted) {
      channel.ask(post(`/v1/locks/${key}`, wish, json), (reply) => {
        const { token } = bodyOf<{ readonly token?: string }>(reply);
        if (!token) throw new Error("an acquire timed out");
        granted(token);
      });
    },
    release(key, token, released) {
      channel.ask(post(`/v1/locks/${key}/release`, JSON.stringify({ token }), json), (reply) => {
        if (statusOf(reply) !== 204) throw new Error(`a release was answered ${reply}`);
        released();
      });
    },
    async close() {
      await channel.asked(`DELETE /v1/sessions/${session} HTTP/1.1\r\n${host}${ours}\r\n`);
      channel.close();
    },
  };
}

const statusOf = (reply: string) => Number(reply.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));

function bodyOf<Body>(reply: string): Body {
  if (statusOf(reply) !== 200) throw new Error(`a request was answered ${reply}`);
  return JSON.parse(reply.slice(reply.indexOf(HEAD_END))) as Body;
}
