/** A process on a disk, under load, is killed without warning at random moments: whatever it has told stays true. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const KILLS = 40;
const WORKERS = 12;
const KEYS = ["a", "b", "c", "d", "e"];
const LEASE_S = 3;
const PROGRAM = fileURLToPath(new URL("support/server-process.ts", import.meta.url));

it("forgets no grant and no release that it has told, and never has two holders", { timeout: 300_000 }, async () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-durable-"));
  const server = new Server(directory);
  const checker = new Checker();
  let isOver = false;
  try {
    await server.start();
    const workers = Array.from({ length: WORKERS }, async (_, index) => {
      while (!isOver) await work(server, checker, KEYS[index % KEYS.length] ?? "", () => isOver);
    });
    for (let kill = 0; kill < KILLS; kill += 1) {
      await sleep(20 + Math.random() * 400);
      await server.kill();
      await server.start();
      await checker.lookBack(server);
    }
    await sleep(500);
    isOver = true;
    await Promise.all(workers);
    expect(checker.faults).toEqual([]);
    // Whatever died with the process is over when its lease is.
    const client = await Client.open(server.port);
    for (const key of KEYS) expect(await client.ask("l", key, `${LEASE_S + 2}`)).toMatch(/^ok /);
    client.close();
    expect(checker.grants).toBeGreaterThan(KILLS * 20);
    expect(checker.kept).toBeGreaterThan(0);
  } finally {
    isOver = true;
    await server.kill();
    rmSync(directory, { recursive: true });
  }
});

/** Locks and unlocks on one connection until that is lost. */
async function work(server: Server, checker: Checker, key: string, isOver: () => boolean): Promise<void> {
  const client = await Client.open(server.port).catch(() => undefined);
  if (!client) {
    await sleep(20);
    return;
  }
  let hold: Hold | undefined;
  try {
    while (!isOver()) {
      hold = await checker.acquire(client, key);
      if (Math.random() < 0.3) await checker.renew(client, hold);
      if (Math.random() < 0.2) await sleep(Math.random() * 20);
      await checker.release(client, hold);
      hold = undefined;
    }
  } catch (error) {
    if (!(error instanceof LostError)) throw error;
    // Its lock must still be there.
    if (hold) await checker.comeBack(server, hold);
  }
  client.close();
}

interface Hold {
  readonly key: string;
  readonly token: string;
  /** By the client's clock it holds the lock until then. */
  until: number;
  /** A release was sent: it may have been carried out. */
  mayBeReleased: boolean;
}

/** Compares what clients were told with what they are told later. */
class Checker {
  readonly faults: string[] = [];
  grants = 0;
  releases = 0;
  kept = 0;
  readonly #holders = new Map<string, Hold>();
  readonly #highest = new Map<string, string>();
  #released: Hold[] = [];

  async acquire(client: Client, key: string): Promise<Hold> {
    const highest = this.#highest.get(key) ?? "";
    const sentAt = performance.now();
    const answer = await client.ask("l", key, `60 ${LEASE_S}`);
    const token = /^ok ([0-9a-f]{32}) 3$/.exec(answer)?.[1];
    if (token === undefined) {
      this.faults.push(`asked for ${key} and was told ${answer}`);
      throw new LostError();
    }
    this.grants += 1;
    const fence = token.slice(0, 16);
    if (fence <= highest) this.faults.push(`fence ${fence} of ${key} is not above ${highest}`);
    if (fence > (this.#highest.get(key) ?? "")) this.#highest.set(key, fence);
    const before = this.#holders.get(key);
    const now = performance.now();
    if (before && !before.mayBeReleased && before.until > now)
      this.faults.push(
        `${key} has two holders: ${before.token} for ${Math.round(before.until - now)} ms, and ${token}`,
      );
    // Its lease has begun when it was told, or up to a second before: commits take less.
    const hold = { key, token, until: Math.max(sentAt, now - 1_000) + LEASE_S * 1000, mayBeReleased: false };
    this.#holders.set(key, hold);
    return hold;
  }

  async renew(client: Client, hold: Hold): Promise<void> {
    const sentAt = performance.now();
    const answer = await client.ask("n", hold.key, `${hold.token} ${LEASE_S}`);
    if (answer === `ok ${LEASE_S}`) hold.until = sentAt + LEASE_S * 1000;
    else if (sentAt < hold.until - 500) this.faults.push(`renewed ${hold.key} and was told ${answer}`);
  }

  async release(client: Client, hold: Hold): Promise<void> {
    const sentAt = performance.now();
    hold.mayBeReleased = true;
    const answer = await client.ask("r", hold.key, hold.token);
    if (answer === "ok") {
      this.releases += 1;
      this.#released.push(hold);
    } else if (sentAt < hold.until - 500) this.faults.push(`released ${hold.key} and was told ${answer}`);
  }

  /** The client of a lock has lost its connection: it still has the lock, unless its time is over. */
  async comeBack(server: Server, hold: Hold): Promise<void> {
    while (performance.now() < hold.until - 500) {
      const client = await Client.open(server.port).catch(() => undefined);
      try {
        if (client) {
          if (!hold.mayBeReleased) {
            await this.renew(client, hold);
            this.kept += 1;
          }
          hold.mayBeReleased = true;
          await client.ask("r", hold.key, hold.token);
          return;
        }
      } catch (error) {
        if (!(error instanceof LostError)) throw error;
      } finally {
        client?.close();
      }
      await sleep(20);
    }
  }

  /** Locks that were told to be released are. */
  async lookBack(server: Server): Promise<void> {
    const client = await Client.open(server.port);
    for (const { key, token } of this.#released.slice(-20)) {
      const answer = await client.ask("n", key, token);
      if (answer !== "error") this.faults.push(`${key} was released, and is renewed: ${answer}`);
    }
    this.#released = [];
    client.close();
  }
}

/** The connection is gone. */
class LostError extends Error {}

class Client {
  readonly #socket: Socket;
  #waiting: { resolve(line: string): void; reject(error: Error): void } | undefined;
  #isLost = false;

  static async open(port: number): Promise<Client> {
    const socket = connect({ host: "127.0.0.1", port, noDelay: true });
    await once(socket, "connect");
    return new Client(socket);
  }

  constructor(socket: Socket) {
    this.#socket = socket;
    socket
      .on("error", () => {})
      .on("close", () => {
        this.#isLost = true;
        this.#waiting?.reject(new LostError());
      });
    let text = "";
    socket.setEncoding("utf8").on("data", (piece: string) => {
      text += piece;
      const end = text.indexOf("\n");
      if (end < 0) return;
      const line = text.slice(0, end);
      text = text.slice(end + 1);
      this.#waiting?.resolve(line);
    });
  }

  ask(command: string, key: string, argument: string): Promise<string> {
    return new Promise((resolve, reject) => {
      if (this.#isLost) reject(new LostError());
      this.#waiting = { resolve, reject };
      this.#socket.write(`${command}\n${key}\n${argument}\n`);
    });
  }

  close(): void {
    this.#socket.destroy();
  }
}

class Server {
  port = 0;
  readonly #directory: string;
  #process: ChildProcess | undefined;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async start(): Promise<void> {
    const child = spawn(process.execPath, [PROGRAM, this.#directory], { stdio: ["ignore", "pipe", "inherit"] });
    this.#process = child;
    const [line] = (await Promise.race([
      once(createInterface(child.stdout), "line"),
      once(child, "exit").then(([code]) => Promise.reject(new Error(`the server ended with ${code}`))),
    ])) as [string];
    this.port = Number(line);
  }

  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
