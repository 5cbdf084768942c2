import { type ConnectOptions, connect, type Locks, type Status } from "../../src/client/index.ts";
import { type CutProxy, startCutProxy } from "../support/cut-proxy.ts";
import { poll } from "../support/poll.ts";
import type { TestServer } from "../support/server.ts";

let keys = 0;

/** A key that no other test uses. */
export function freshKey(prefix = "client"): string {
  keys += 1;
  return `${prefix}-${keys}`;
}

/** A client of the server on this port. */
export function connectTo(port: number, options: ConnectOptions = {}): Locks {
  return connect(`http://127.0.0.1:${port}`, options);
}

/** Resolves once the key has as many waiters, as `observer` sees it. */
export async function waitersOf(observer: Locks, key: string, count: number): Promise<void> {
  await poll(`${count} waiters on ${key}`, 20_000, async () => {
    const report = await observer.query(key);
    return report?.waiters === count || undefined;
  });
}

/** Resolves once the client's connection is in that state. */
export async function becomes(locks: Locks, wanted: Status): Promise<void> {
  for await (const status of locks.statuses()) if (status === wanted) return;
  throw new Error(`closed before it was ${wanted}`);
}

/** The statuses of a client from now on, as they come. */
export function storyOf(locks: Locks): Status[] {
  const story: Status[] = [];
  void (async () => {
    for await (const status of locks.statuses()) story.push(status);
  })();
  return story;
}

/** The error of a promise that must reject. */
export async function errorIn(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => {
      throw new Error(`expected an error, got ${String(value)}`);
    },
    (error) => error,
  );
}

/** A client whose connection goes through a proxy of its own. */
export async function withProxy(
  server: TestServer,
  story: (locks: Locks, proxy: CutProxy) => Promise<void>,
): Promise<void> {
  await using proxy = await startCutProxy(() => server.httpPort);
  await using locks = connectTo(proxy.port, { label: "through" });
  await becomes(locks, "connected");
  await story(locks, proxy);
}

export interface Scope {
  readonly keys: readonly string[];
  readonly operations: readonly string[];
  readonly ttl_s: number;
}

/** A ticket of that scope, from a server with that token. */
export async function ticketOf(server: TestServer, token: string, scope: Scope): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${server.httpPort}/v1/tickets`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}` },
    body: JSON.stringify(scope),
  });
  return ((await response.json()) as { ticket: string }).ticket;
}
