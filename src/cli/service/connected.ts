import { WebSocket } from "ws";
import { Client } from "../../client/client.ts";
import { systemClock } from "../../client/clock.ts";
import { addressIn } from "../../client/connection/socket.ts";
import { connect, type Locks, type SocketConstructor, type Status } from "../../client/index.ts";
import { full, nonsense, refusal, tokenRefused, unreachable } from "./failures.ts";
import { HttpService } from "./http.ts";
import type { Target } from "./target.ts";

/** The error of a WebSocket whose upgrade was answered with another status. */
const REFUSED_UPGRADE = /^Unexpected server response: ([0-9]+)$/;
/** Unlike Node's own WebSocket, which Node 20 lacks, this one reports why a connection fails. */
const Socket = WebSocket as unknown as SocketConstructor;

/** A connected client, for locks. Throws like `settle`. */
export async function connectLocks(target: Target, label: string, signal: AbortSignal): Promise<Locks> {
  const { url, token } = target;
  const locks = connect(url, { label, WebSocket: Socket, ...(token === undefined ? {} : { token }) });
  await settle(target, locks, locks.statuses(), signal);
  return locks;
}

/** A connected client, for single requests. Throws like `settle`. */
export async function connectClient(target: Target): Promise<Client> {
  const { href } = addressIn(target.url) ?? new URL(target.url);
  const client = new Client({ url: href, token: target.token, WebSocket: Socket, clock: systemClock });
  await settle(target, client, client.status.read(), undefined);
  return client;
}

interface Connecting {
  readonly problem: unknown;
  close(): Promise<void>;
}

/**
 * Resolves when the client is connected. Throws a `CommandError` after the first failed attempt, so that a command
 * reports a missing server immediately. The signal ends the attempt with its own reason. Once connected, the client
 * reconnects by itself.
 */
async function settle(
  target: Target,
  client: Connecting,
  statuses: AsyncIterable<Status>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const abort = () => void client.close();
  signal?.addEventListener("abort", abort);
  try {
    for await (const status of statuses) {
      if (status === "connected") return;
      const { problem } = client;
      await client.close();
      signal?.throwIfAborted();
      throw await noConnection(target, problem);
    }
    signal?.throwIfAborted();
    throw unreachable(target, "the connection was closed");
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

async function noConnection(target: Target, problem: unknown): Promise<unknown> {
  if (problem === "refused") return tokenRefused(target);
  if (typeof problem === "string" && problem.startsWith("closed ")) return reasonOverHttp(target, problem);
  const [, status] = REFUSED_UPGRADE.exec((problem as Partial<Error> | undefined)?.message ?? "") ?? [];
  switch (status) {
    case undefined:
      return unreachable(target, problem);
    case "401":
      return tokenRefused(target);
    case "403":
      return refusal(target, 403, "forbidden", undefined);
    case "421":
      return refusal(target, 421, "host_forbidden", undefined);
    case "429":
      return refusal(target, 429, "rate_limited", undefined);
    case "503":
      return full(target, "it takes no more connections, or is starting");
    default:
      return refusedUpgrade(target, `HTTP ${status}`);
  }
}

/** A plain request to the same route is told why, in words. */
async function refusedUpgrade(target: Target, answer: string): Promise<unknown> {
  return new HttpService(target).ask("/v1/ws").then(
    () => nonsense(target, answer),
    (error: unknown) => error,
  );
}

/** A WebSocket to a name with several addresses fails without a reason; a plain request to the same name gives one. */
async function reasonOverHttp(target: Target, problem: string): Promise<unknown> {
  const service = new HttpService(target);
  return service.state("/ready").then(
    () => unreachable(target, problem),
    (error: unknown) => error,
  );
}
