/**
 * The floor: what the platform charges for the way a request takes through holdfast, and nothing else. Same carriers,
 * same hops (session-like object, RPC, key-like object), one row committed per request, and a key that is taken is
 * handed over the same way: one commit, one call to the session of the next in line. No lease, no token, no recovery:
 * any request is answered with a line that looks like a grant. REST requests do not queue. The class names are those of
 * the service, so that the service's launcher starts it.
 */
import { DurableObject } from "cloudflare:workers";
import type { Env } from "../../src/cloudflare/env.ts";
import { openSession } from "../../src/cloudflare/transports/session.ts";
import { serveTcp } from "../../src/cloudflare/transports/tcp.ts";
import { ReceiveWindow } from "../../src/core/protocols/carrier/window.ts";
import { ALL_BUT_ADMIN } from "../../src/core/session/rights.ts";

interface FloorEnv {
  readonly KEY: DurableObjectNamespace<KeyObject>;
  readonly SESSION: DurableObjectNamespace<SessionObject>;
}

interface WorkerEnv extends FloorEnv {
  readonly HTTP_SESSION: DurableObjectNamespace<HttpSessionObject>;
}

const TOKEN = "0".repeat(32);
const REPLY = `ok ${TOKEN} 33\n`;

/** Takes one whole request per message, as the benchmark's clients send them, and answers it with one line. */
export class SessionObject extends DurableObject<FloorEnv> {
  readonly #window = new ReceiveWindow();
  readonly #decoder = new TextDecoder();
  readonly #keys = new Map<string, DurableObjectStub<KeyObject>>();

  override fetch(): Response {
    const { 0: theirs, 1: ours } = new WebSocketPair();
    this.ctx.acceptWebSocket(ours);
    return new Response(null, { status: 101, webSocket: theirs });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (typeof message === "string") {
      await this.#serve(socket, message);
      return;
    }
    // An empty frame is the end of a TCP client's input.
    if (message.byteLength === 0) {
      socket.close(1000);
      return;
    }
    await this.#serve(socket, this.#decoder.decode(message));
    const acknowledgement = this.#window.consumed(message.byteLength);
    if (acknowledgement) socket.send(acknowledgement);
  }

  override webSocketClose(socket: WebSocket): void {
    socket.close(1000);
  }

  async #serve(socket: WebSocket, frame: string): Promise<void> {
    const [command, key = ""] = frame.split("\n", 2);
    if (command === "r") socket.send(await this.#key(key).release());
    else if (await this.#key(key).acquire(this.ctx.id.name ?? "")) socket.send(REPLY);
  }

  /** The lock that the client waits for is its own. */
  deliver(): void {
    this.ctx.getWebSockets()[0]?.send(REPLY);
  }

  #key(name: string): DurableObjectStub<KeyObject> {
    const known = this.#keys.get(name);
    if (known) return known;
    const stub = this.env.KEY.getByName(name);
    this.#keys.set(name, stub);
    return stub;
  }
}

/** Commits one row per request before it answers. */
export class KeyObject extends DurableObject<FloorEnv> {
  #requests = 0;
  #isHeld = false;
  /** Sessions that wait. */
  readonly #queue: string[] = [];

  constructor(ctx: DurableObjectState, env: FloorEnv) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY, count INTEGER NOT NULL)");
  }

  /** False if the session has to wait. */
  acquire(session: string): boolean {
    this.commit();
    const isFree = !this.#isHeld;
    this.#isHeld = true;
    if (!isFree) this.#queue.push(session);
    return isFree;
  }

  release(): string {
    const next = this.#queue.shift();
    this.#isHeld = next !== undefined;
    if (next !== undefined) this.ctx.waitUntil(this.env.SESSION.getByName(next).deliver());
    return this.commit();
  }

  commit(): string {
    this.ctx.storage.sql.exec("INSERT OR REPLACE INTO requests VALUES (1, ?)", ++this.#requests);
    return REPLY;
  }
}

/** Where requests of the REST API pass on their way to the key. */
export class HttpSessionObject extends DurableObject<FloorEnv> {
  async commit(key: string): Promise<string> {
    return this.env.KEY.getByName(key).commit();
  }
}

/** Nobody asks these anything; the launcher wants them to exist. */
export class DirectoryObject extends DurableObject<FloorEnv> {}
export class MetricsObject extends DurableObject<FloorEnv> {}
export class RateLimitObject extends DurableObject<FloorEnv> {}
export class StorageProbeObject extends DurableObject<FloorEnv> {}
export class RelayObject extends DurableObject<FloorEnv> {}

/** Answers in the shapes of the REST API. */
async function serveHttp(request: Request, env: WorkerEnv): Promise<Response> {
  const [, , resource, key = "", action] = new URL(request.url).pathname.split("/");
  if (resource === "sessions") {
    return key === "" ? Response.json({ session_id: crypto.randomUUID() }) : new Response(null, { status: 204 });
  }
  await request.json();
  await env.HTTP_SESSION.getByName(request.headers.get("X-Dflockd-Session") ?? "").commit(key);
  if (action === "release") return new Response(null, { status: 204 });
  return Response.json({ status: "ok", token: TOKEN, lease_ttl_s: 33 });
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    if (request.headers.get("Upgrade") !== "websocket") return serveHttp(request, env as unknown as WorkerEnv);
    const { webSocket } = await openSession(env, {
      protocol: "dflockd",
      transport: "ws",
      address: "unknown",
      isAuthenticated: false,
      rights: ALL_BUT_ADMIN,
      hasWindow: false,
    });
    return new Response(null, { status: 101, webSocket });
  },
  connect: serveTcp,
};
