/** HTTP sessions as a client of the REST API has them. Nothing is retried; what is not expected is an error. */
import { type HttpExchange, type HttpReply, type HttpRequest, send, startRequest } from "./http-client.ts";
import { poll } from "./poll.ts";

/** Longer than any story takes. */
const PATIENCE_MS = 60_000;

/** Where the service is; asked at every request, since a restart may move it. */
export interface HttpService {
  readonly httpPort: number;
}

/** A reply with its JSON read; `body` is empty where there was none. */
export interface RestReply extends Pick<HttpReply, "status" | "ms" | "endedAt"> {
  readonly body: {
    readonly status?: string;
    readonly token?: string;
    readonly lease_ttl_s?: number;
    readonly remaining_s?: number;
    readonly error?: string;
    readonly detail?: string;
  };
}

/** A request under way, which its client can abandon. */
export interface Asked extends Omit<HttpExchange, "reply"> {
  readonly reply: Promise<RestReply>;
}

export interface WaitingMember {
  readonly position: number;
  readonly label?: string;
  readonly since: string;
  /** Absent for a place that nobody waits on. */
  readonly timeout_in_s?: number;
}

/** What the service tells of one key. */
export interface KeyReport {
  readonly holders: number;
  readonly waiters: number;
  readonly held_by: readonly { readonly label?: string; readonly fence: string }[];
  readonly queue: readonly WaitingMember[];
}

let labels = 0;

export class RestSession {
  readonly id: string;
  /** What the service calls this session where it tells who holds and who waits. */
  readonly label: string;
  private readonly service: HttpService;

  private constructor(service: HttpService, id: string, label: string) {
    this.service = service;
    this.id = id;
    this.label = label;
  }

  static async open(service: HttpService): Promise<RestSession> {
    labels += 1;
    const label = `rest-${labels}`;
    const headers = { "X-Holdfast-Label": label };
    const reply = await send(service.httpPort, { method: "POST", path: "/v1/sessions", headers });
    const { session_id } = JSON.parse(reply.body) as { session_id?: string };
    if (reply.status !== 200 || session_id === undefined) throw new Error(`no session: ${reply.status} ${reply.body}`);
    return new RestSession(service, session_id, label);
  }

  static many(service: HttpService, count: number): Promise<RestSession[]> {
    return Promise.all(Array.from({ length: count }, () => RestSession.open(service)));
  }

  /** Starts a request of this session on a path below `/v1`. */
  start(path: string, body: object): Asked {
    const headers = { "X-Dflockd-Session": this.id };
    return started(this.service, { method: "POST", path: `/v1${path}`, headers, body: JSON.stringify(body) });
  }

  ask(path: string, body: object): Promise<RestReply> {
    return this.start(path, body).reply;
  }

  /** Starts an acquire of a lock. */
  acquire(key: string, acquire_timeout_s: number, lease_ttl_s = 0): Asked {
    return this.start(`/locks/${encodeURIComponent(key)}`, { acquire_timeout_s, lease_ttl_s });
  }

  /** Starts an acquire that has to wait, and returns when it has its place in the queue. */
  async queue(key: string, acquire_timeout_s = 60): Promise<Asked> {
    const asked = this.acquire(key, acquire_timeout_s);
    asked.reply.catch(() => undefined);
    await this.hasPlace(key);
    return asked;
  }

  enqueue(key: string, lease_ttl_s = 0): Promise<RestReply> {
    return this.ask(`/locks/${encodeURIComponent(key)}/enqueue`, { lease_ttl_s });
  }

  wait(key: string, timeout_s: number): Asked {
    return this.start(`/locks/${encodeURIComponent(key)}/wait`, { timeout_s });
  }

  /** Starts a wait on a place taken before, and returns when the key knows of it. */
  async awaitPlace(key: string, timeout_s = 60): Promise<Asked> {
    const asked = this.wait(key, timeout_s);
    asked.reply.catch(() => undefined);
    await this.hasPlace(key);
    return asked;
  }

  renew(key: string, token: string, lease_ttl_s = 0): Promise<RestReply> {
    return this.ask(`/locks/${encodeURIComponent(key)}/renew`, { token, lease_ttl_s });
  }

  release(key: string, token: string): Promise<RestReply> {
    return this.ask(`/locks/${encodeURIComponent(key)}/release`, { token });
  }

  /** Takes a free lock and returns its token. */
  async hold(key: string, lease_ttl_s = 0): Promise<string> {
    return tokenIn(await this.acquire(key, 0, lease_ttl_s).reply);
  }

  ping(): Promise<RestReply> {
    return started(this.service, { method: "POST", path: `/v1/sessions/${this.id}/ping` }).reply;
  }

  end(): Promise<RestReply> {
    return started(this.service, { method: "DELETE", path: `/v1/sessions/${this.id}` }).reply;
  }

  private async hasPlace(key: string): Promise<void> {
    await poll(`${this.label} to wait for ${key}`, 5_000, async () => {
      const queue = (await keyReport(this.service, key))?.queue ?? [];
      return queue.some(({ label, timeout_in_s }) => label === this.label && timeout_in_s !== undefined) || undefined;
    });
  }
}

/** What the service tells of a key, or undefined if there is none. */
export async function keyReport({ httpPort }: HttpService, key: string): Promise<KeyReport | undefined> {
  const reply = await send(httpPort, { method: "GET", path: `/v1/keys/${encodeURIComponent(key)}` });
  if (reply.status === 404) return undefined;
  if (reply.status !== 200) throw new Error(`no report of ${key}: ${reply.status} ${reply.body}`);
  return JSON.parse(reply.body) as KeyReport;
}

/** The token of a grant; anything else is an error. */
export function tokenIn({ status, body }: RestReply): string {
  if (status !== 200 || body.token === undefined) throw new Error(`no grant: ${status} ${JSON.stringify(body)}`);
  return body.token;
}

/** The code of a refusal, or the status word of a success. */
export function wordOf({ status, body }: RestReply): string {
  return body.error ?? body.status ?? String(status);
}

function started({ httpPort }: HttpService, request: HttpRequest): Asked {
  const { reply, close, reset } = startRequest(httpPort, request, PATIENCE_MS);
  return { reply: reply.then(read), close, reset };
}

function read({ status, body, ms, endedAt }: HttpReply): RestReply {
  return { status, ms, endedAt, body: body === "" ? {} : (JSON.parse(body) as RestReply["body"]) };
}
