/** A client of the REST API: one session, one connection that is kept alive, and no more of HTTP than that takes. */
import { connect, type Socket } from "node:net";
import type { Address, LockClient } from "./client.ts";

interface Answer {
  readonly status: number;
  readonly text: string;
}

const HEAD_END = "\r\n\r\n";

export async function openRest(address: Address): Promise<LockClient> {
  const connection = await RestConnection.open(address);
  const { session_id: session } = bodyOf<{ readonly session_id: string }>(await connection.post("/v1/sessions", ""));
  const post = (path: string, body: object) => connection.post(path, JSON.stringify(body), session);
  return {
    async acquire(key, waitSeconds) {
      const answer = await post(`/v1/locks/${key}`, { acquire_timeout_s: waitSeconds });
      const { token } = bodyOf<{ readonly token?: string }>(answer);
      if (!token) throw new Error("an acquire timed out");
      return token;
    },
    async release(key, token) {
      const { status, text } = await post(`/v1/locks/${key}/release`, { token });
      if (status !== 204) throw new Error(`a release was answered ${status} ${text}`);
    },
    close: () => connection.leave(session),
  };
}

function bodyOf<Body>({ status, text }: Answer): Body {
  if (status !== 200) throw new Error(`a request was answered ${status} ${text}`);
  return JSON.parse(text) as Body;
}

/** One request at a time, its answer to be awaited. */
class RestConnection {
  readonly #socket: Socket;
  readonly #host: string;
  #received = "";
  #pending = Promise.withResolvers<Answer>();

  private constructor(socket: Socket, host: string) {
    this.#socket = socket;
    this.#host = host;
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#take(text));
    socket.on("error", (error) => this.#pending.reject(error));
    socket.on("close", () => this.#pending.reject(new Error("the server closed the connection")));
    // Between two requests nobody listens.
    this.#pending.promise.catch(() => {});
  }

  static open({ host, port }: Address): Promise<RestConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port, noDelay: true });
      socket.once("error", reject);
      socket.once("connect", () => resolve(new RestConnection(socket, `${host}:${port}`)));
    });
  }

  post(path: string, body: string, session?: string): Promise<Answer> {
    return this.#ask("POST", path, body, session);
  }

  /** Ends the session, and the connection when that is answered. */
  leave(session: string): void {
    const end = () => this.#socket.destroy();
    this.#ask("DELETE", `/v1/sessions/${session}`, "", session).then(end, end);
  }

  #ask(method: string, path: string, body: string, session: string | undefined): Promise<Answer> {
    this.#pending = Promise.withResolvers<Answer>();
    const headers = session ? `X-Dflockd-Session: ${session}\r\nContent-Type: application/json\r\n` : "";
    const length = Buffer.byteLength(body);
    this.#socket.write(
      `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}\r\n${headers}Content-Length: ${length}${HEAD_END}${body}`,
    );
    return this.#pending.promise;
  }

  #take(text: string): void {
    this.#received += text;
    const end = this.#received.indexOf(HEAD_END);
    if (end < 0) return;
    const head = this.#received.slice(0, end);
    const body = this.#received.slice(end + HEAD_END.length);
    const status = Number(head.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));
    const [, length] = /^content-length: *(\d+)/im.exec(head) ?? [];
    if (status !== 204 && length === undefined) {
      this.#socket.destroy(new Error(`the benchmark cannot read this answer:\n${head}`));
    } else if (body.length >= Number(length ?? 0)) {
      this.#received = "";
      this.#pending.resolve({ status, text: body });
    }
  }
}
