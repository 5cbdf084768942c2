import { readdirSync } from "node:fs";
import { expect, onTestFinished } from "vitest";
import { isRunning, type RunningServe, startServe } from "../cli/support.ts";
import { Clients } from "../support/clients.ts";

export const OPEN_FILES = 1_024;

/** A server that may open few files, and its clients. */
export interface Limited {
  readonly server: RunningServe;
  readonly httpPort: number;
  readonly clients: Clients;
  /** The most files that were open at a time so far. */
  readonly mostOpenFiles: () => number;
}

export async function limited(options: Parameters<typeof startServe>[0] = {}): Promise<Limited> {
  const server = await startServe({ ...options, openFiles: OPEN_FILES });
  const clients = new Clients({ tcpPort: server.port, httpPort: server.httpPort });
  let most = 0;
  const watch = setInterval(() => {
    if (isRunning(server.pid)) most = Math.max(most, readdirSync(`/proc/${server.pid}/fd`).length);
  }, 20);
  onTestFinished(() => {
    clearInterval(watch);
    clients[Symbol.dispose]();
  });
  return { server, httpPort: server.httpPort, clients, mostOpenFiles: () => most };
}

/** Fails unless the server runs and never came to the limit. */
export function hasFiles({ server, mostOpenFiles }: Limited): void {
  expect(mostOpenFiles()).toBeLessThan(OPEN_FILES);
  expect(isRunning(server.pid)).toBe(true);
}
