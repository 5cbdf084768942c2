import { reset, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { httpSessionName } from "../../src/core/session-names.ts";
import { allowLog, expectLog } from "../support/expected-logs.ts";
import { sessionsOn, storedIn, until } from "./support.ts";

/** A reply with its JSON read; `body` is empty where there was none. */
export interface RestReply {
  readonly status: number;
  readonly body: {
    readonly status?: string;
    readonly token?: string;
    readonly lease_ttl_s?: number;
    readonly error?: string;
    readonly session_id?: string;
  };
}

/** Requests without a reply so far. */
const open = new Set<Promise<unknown>>();

/** A service that has no keys and no sessions. Requests that earlier tests have left open end with their objects. */
export async function newService(): Promise<void> {
  if (open.size > 0) {
    allowLog("request_failed", { status: 408, error: "client_canceled" });
    allowLog("request_failed", { status: 503, error: "unavailable" });
  }
  open.clear();
  await reset();
}

/** Asks the service whatever is to be asked. A signal makes the client leave, as the platform reports it. */
export async function call(method: string, path: string, options: RequestInit = {}): Promise<RestReply> {
  return read(await ask(path, { method, ...options }));
}

async function ask(path: string, options: RequestInit): Promise<Response> {
  // Some are gone before the service has read their request.
  const leave = () => allowLog("request_failed", { status: 408, error: "client_canceled" });
  options.signal?.addEventListener("abort", leave);
  const reply = exports.default.fetch(new Request(`http://holdfast${path}`, options));
  open.add(reply);
  try {
    return await reply;
  } finally {
    open.delete(reply);
  }
}

/** The service logs every refusal, but that of a lock that is held. */
async function read(reply: Response): Promise<RestReply> {
  const text = await reply.text();
  const body = text === "" ? {} : (JSON.parse(text) as RestReply["body"]);
  if (body.error !== undefined && body.error !== "held")
    expectLog("request_failed", { status: reply.status, error: body.error });
  return { status: reply.status, body };
}

/** One HTTP session and its client. */
export class RestClient {
  readonly id: string;

  private constructor(id: string) {
    this.id = id;
  }

  static async open(): Promise<RestClient> {
    const { status, body } = await call("POST", "/v1/sessions");
    if (body.session_id === undefined) throw new Error(`no session: ${status} ${body.error}`);
    return new RestClient(body.session_id);
  }

  /** What keys and the directory call the session. */
  get name(): string {
    return httpSessionName(this.id);
  }

  get object() {
    return env.HTTP_SESSION.getByName(this.name);
  }

  /** Asks for something below `/v1/locks/`; the reply comes as it is. */
  raw(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    const headers = { "X-Dflockd-Session": this.id };
    return ask(`/v1/locks/${path}`, { method: "POST", headers, body: JSON.stringify(body), ...(signal && { signal }) });
  }

  async post(path: string, body: object, signal?: AbortSignal): Promise<RestReply> {
    return read(await this.raw(path, body, signal));
  }

  acquire(key: string, acquire_timeout_s = 0, signal?: AbortSignal): Promise<RestReply> {
    return this.post(key, { acquire_timeout_s }, signal);
  }

  enqueue(key: string, signal?: AbortSignal): Promise<RestReply> {
    return this.post(`${key}/enqueue`, {}, signal);
  }

  wait(key: string, timeout_s = 0, signal?: AbortSignal): Promise<RestReply> {
    return this.post(`${key}/wait`, { timeout_s }, signal);
  }

  renew(key: string, token: string): Promise<RestReply> {
    return this.post(`${key}/renew`, { token });
  }

  release(key: string, token: string): Promise<RestReply> {
    return this.post(`${key}/release`, { token });
  }

  ping(): Promise<RestReply> {
    return call("POST", `/v1/sessions/${this.id}/ping`);
  }

  end(): Promise<RestReply> {
    return call("DELETE", `/v1/sessions/${this.id}`);
  }

  /** Takes a free lock and returns its token. */
  async hold(key: string): Promise<string> {
    return tokenIn(await this.acquire(key));
  }

  /** Asks for the lock, and returns when it has its place in the queue. */
  async queue(key: string, signal?: AbortSignal): Promise<{ readonly reply: Promise<RestReply> }> {
    const before = await sessionsOn(key);
    const reply = this.acquire(key, 60, signal);
    // Whoever leaves is not interested any more.
    reply.catch(() => {});
    await soon(async () => (await sessionsOn(key)).length > before.length);
    return { reply };
  }

  /** The same, and returns when it polls. */
  async poll(key: string, signal?: AbortSignal): Promise<{ readonly reply: Promise<RestReply> }> {
    const before = await this.polls();
    const queued = await this.queue(key, signal);
    await soon(async () => (await this.polls()) > before);
    return queued;
  }

  /** The number of open polls. */
  polls(): Promise<number> {
    return runInDurableObject(this.object, (_, state) => state.getWebSockets().length);
  }
}

/** The token of a grant; anything else is an error. */
export function tokenIn({ status, body }: RestReply): string {
  if (status !== 200 || !body.token) throw new Error(`no grant: ${status} ${JSON.stringify(body)}`);
  return body.token;
}

/** The code of a refusal, or the status word of a success. */
export function wordOf({ status, body }: RestReply): string {
  return body.error ?? body.status ?? String(status);
}

/** Waits until it is so; what is promised "soon" takes no longer than `timeout` milliseconds. */
export const soon = (check: () => boolean | Promise<boolean>, timeout = 3_000) => until(check, { timeout });

/** Everything an object has stored: tables, values by key, and its alarm. */
export async function storedBy(stub: DurableObjectStub) {
  const tables = await storedIn(stub);
  return runInDurableObject(stub, async (_, { storage }) => ({
    tables,
    values: [...storage.kv.list()].length,
    alarm: await storage.getAlarm(),
  }));
}

export const NOTHING_STORED = { tables: [], values: 0, alarm: null };
