import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { vi } from "vitest";
import { allDirectories, directoryOfKey } from "../../src/cloudflare/calls/directories.ts";
import type { KeyObjectCommand, KeyObjectOutcomeOf } from "../../src/cloudflare/calls/key-calls.ts";
import type { KeyObject } from "../../src/cloudflare/key/key-object.ts";
import { KeyStore } from "../../src/cloudflare/key/rows.ts";
import { CloudflareService } from "../../src/cloudflare/service/cloudflare-service.ts";
import type { AcquireCommand } from "../../src/core/engine/index.ts";

/**
 * Polls until the check is true. The deadline counts only the pauses between polls, so a machine that stalls does not
 * use it up. A stopped clock stays stopped: `vi.waitUntil` and `expect.poll` advance it with every poll (vitest 4.1).
 */
export async function until<Result>(
  check: () => Result | Promise<Result>,
  { timeout = 3_000, interval = 10 } = {},
): Promise<NonNullable<Result>> {
  const late = new Error(`still not true after ${timeout} ms of polling`);
  for (let left = timeout; left >= 0; left -= interval) {
    const result = await check();
    if (result) return result;
    await scheduler.wait(interval);
  }
  throw late;
}

/** The service, as a request has it. */
export function service(waitUntil: (work: Promise<unknown>) => void = () => {}): CloudflareService {
  return new CloudflareService(env, waitUntil);
}

const unanswered: unknown[] = [];

/** Never settles. It is kept, because the runtime rejects a promise when whatever could settle it is collected as garbage. */
export function never(): Promise<never> {
  const { promise, ...settling } = Promise.withResolvers<never>();
  unanswered.push(settling);
  return promise;
}

let names = 0;

/** A name that no other test uses. */
export function fresh(prefix: string): string {
  names += 1;
  return `${prefix}-${names}-${crypto.randomUUID().slice(0, 8)}`;
}

/** The name of a session on a socket that nobody has opened. */
export function newSession(): string {
  return env.SESSION.newUniqueId().toString();
}

/** The object of a session on a socket. */
export function sessionStub(session: string) {
  return env.SESSION.get(env.SESSION.idFromString(session));
}

/** A lock command with everything that a story does not care about filled in. */
export function command(overrides: Partial<AcquireCommand> = {}): AcquireCommand {
  const { session = fresh("session"), request = fresh("request") } = overrides;
  return { limit: 1, leaseSeconds: 33, waitMs: 0, mayWait: true, ...overrides, session, request };
}

/** The number of rows that the storage of an object has had written by `work`. */
export async function rowsWritten(state: DurableObjectState, work: () => unknown): Promise<number> {
  const count = countIn(state);
  try {
    await work();
  } finally {
    count();
  }
  return count();
}

/** Counts the rows that an object writes from here on, for as long as it is not evicted. */
export async function countRows(stub: DurableObjectStub): Promise<() => number> {
  return runInDurableObject(stub, (_, state) => countIn(state));
}

/** The first call of what it returns ends the count. */
function countIn({ storage }: DurableObjectState): () => number {
  const { sql, kv } = storage;
  const exec = sql.exec.bind(sql);
  const cursors: { readonly rowsWritten: number }[] = [];
  const spy = vi.spyOn(sql, "exec").mockImplementation(((query: string, ...bindings: unknown[]) => {
    const cursor = exec(query, ...bindings);
    cursors.push(cursor);
    return cursor;
  }) as typeof sql.exec);
  const others = [
    vi.spyOn(storage, "setAlarm"),
    vi.spyOn(storage, "deleteAlarm"),
    vi.spyOn(kv, "put"),
    vi.spyOn(kv, "delete"),
  ];
  let rows: number | undefined;
  return () => {
    if (rows !== undefined) return rows;
    rows = others.reduce((sum, { mock }) => sum + mock.calls.length, 0);
    for (const cursor of cursors) rows += cursor.rowsWritten;
    for (const each of [spy, ...others]) each.mockRestore();
    return rows;
  };
}

/** A WebSocket client of the service under test. */
export class Client {
  readonly #socket: WebSocket;
  readonly #lines: string[] = [];
  #closed: number | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") this.#lines.push(data);
    });
    socket.addEventListener("close", ({ code }) => {
      this.#closed = code;
    });
    socket.accept();
  }

  static async open(headers: Record<string, string> = {}): Promise<Client> {
    return Client.on(exports.default.fetch("http://holdfast/v1/ws", { headers: { Upgrade: "websocket", ...headers } }));
  }

  /** The client at the other end of an upgrade. */
  static async on(upgrade: Promise<Response>): Promise<Client> {
    const reply = await upgrade;
    if (!reply.webSocket) throw new Error(`no upgrade: ${reply.status} ${await reply.text()}`);
    return new Client(reply.webSocket);
  }

  send(text: string): void {
    this.#socket.send(text);
  }

  sendBytes(bytes: Uint8Array): void {
    this.#socket.send(bytes);
  }

  close(code = 1000): void {
    this.#socket.close(code);
  }

  /** The next line, without its line feed. */
  async line(): Promise<string> {
    await until(() => this.#lines.length > 0, { timeout: 15_000, interval: 5 });
    return (this.#lines.shift() ?? "").replace(/\n$/, "");
  }

  async ask(text: string): Promise<string> {
    this.send(text);
    return this.line();
  }

  get unread(): readonly string[] {
    return this.#lines;
  }

  async closed(): Promise<number> {
    return until(() => this.#closed, { timeout: 5_000, interval: 5 });
  }
}

/** The token in a grant line such as `ok <token> 33`. */
export function tokenOf(line: string): string {
  const token = /^(?:@\S+ )?(?:ok|acquired) ([0-9a-f]{32}) \d+$/.exec(line)?.[1];
  if (!token) throw new Error(`no grant: ${line}`);
  return token;
}

/** The object of a key. */
export function keyStub(key: string) {
  return env.KEY.getByName(key);
}

/** Has a key carry out a command, and resolves with its outcome. */
export async function askKey<Command extends KeyObjectCommand>(
  key: DurableObjectStub<KeyObject> | KeyObject,
  command: Command,
): Promise<KeyObjectOutcomeOf<Command["type"]>> {
  const { outcome } = await (key as KeyObject).command(command);
  return outcome as KeyObjectOutcomeOf<Command["type"]>;
}

/** Whether the directory lists the key. */
export async function isListed(key: string): Promise<boolean> {
  const { keys } = await directoryOfKey(env, key).list({ prefix: key, after: "", limit: 1 });
  return keys[0] === key;
}

/** Resolves when the directory lists these keys: without a cap, it hears of them after their clients. */
export async function listed(...keys: readonly string[]): Promise<void> {
  for (const key of keys) await until(() => isListed(key), { timeout: 10_000 });
}

/** Longer than a key keeps its rows after its last use. */
export const PRUNED_AFTER_MS = 4_000_000;

/** Runs a key's alarm: one that has been idle for long enough is deleted. */
export async function runAlarm(key: string): Promise<void> {
  await runDurableObjectAlarm(keyStub(key));
}

/** Sessions that the key's rows name, holders first, then waiters in order. */
export async function sessionsOn(key: string): Promise<string[]> {
  return runInDurableObject(keyStub(key), (_, { storage }) => {
    const loaded = new KeyStore(storage).load()?.key;
    const holders = loaded?.slots.filter(({ isHeld }) => isHeld) ?? [];
    return [...holders, ...(loaded?.waiters ?? [])].map(({ session }) => session);
  });
}

/** The names of the tables and records an object has; none when nothing of it is stored. */
export async function storedIn(stub: DurableObjectStub): Promise<string[]> {
  return runInDurableObject(stub, (_, { storage }) => {
    const tables = storage.sql.exec<{ name: string }>(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'",
    );
    const records = Array.from(storage.kv.list(), ([name]) => `record ${name}`);
    return [...tables.toArray().map(({ name }) => name), ...records];
  });
}

/** The token of a grant; anything else is an error. */
export function grantedToken(outcome: { readonly status: string; readonly token?: string }): string {
  if (!outcome.token) throw new Error(`not granted: ${outcome.status}`);
  return outcome.token;
}

/** For commands that wait longer than any story takes. */
export const WAIT = { waitMs: 60_000 };

/** Sessions that the directory counts as connected. */
export async function liveSessions(): Promise<number> {
  const shards = await Promise.all(allDirectories(env).map((directory) => directory.census()));
  return shards.reduce((sum, { sessions: { tcp, ws, http } }) => sum + tcp + ws + http, 0);
}
