import { expect, test } from "vitest";
import { Connections } from "../../../src/node/listeners/connections.ts";
import { budgetFor, fewOpenFiles, openFileLimit } from "../../../src/node/listeners/open-files.ts";

const caps = { sockets: 3, clients: 2, clientsPerAddress: 1, httpPerAddress: 2 };

function admitted(outcome: ReturnType<Connections["admit"]>): () => void {
  if (typeof outcome === "string") throw new Error(`refused: ${outcome}`);
  return outcome;
}

test("caps on clients hold for the whole server and per address, and places come back once", () => {
  const connections = new Connections(caps);
  const leave = admitted(connections.admit("a"));
  expect(connections.admit("a")).toBe("max_connections_per_ip");
  admitted(connections.admit("b"));
  expect(connections.admit("c")).toBe("max_connections");
  leave();
  leave();
  admitted(connections.admit("a"));
  expect(connections.admit("c")).toBe("max_connections");
});

test("a cap of 0 is none", () => {
  const connections = new Connections({ sockets: 3, clients: 0, clientsPerAddress: 0, httpPerAddress: 0 });
  for (let count = 0; count < 100; count += 1) admitted(connections.admit("a"));
});

test("sockets of every kind are counted until they close", () => {
  const connections = new Connections(caps);
  const close = connections.open();
  connections.open();
  connections.open();
  expect(connections.hasRoom).toBe(false);
  close();
  close();
  expect(connections.sockets).toBe(2);
  expect(connections.hasRoom).toBe(true);
});

test("connections to the HTTP port are counted per address until they close or become WebSockets", () => {
  const connections = new Connections(caps);
  const [first, second, third] = [1, 2, 3].map((remotePort) => ({ remoteAddress: "::ffff:192.0.2.1", remotePort }));
  if (!first || !second || !third) throw new Error("three");
  const close = connections.openHttp(first);
  connections.openHttp(second);
  expect(connections.isHttpFull(third)).toBe(true);
  expect(connections.isHttpFull({ remoteAddress: "192.0.2.2", remotePort: 1 })).toBe(false);
  connections.becameWebSocket(first);
  expect(connections.isHttpFull(third)).toBe(false);
  connections.openHttp(third);
  expect(connections.isHttpFull(first)).toBe(true);
  // It has left already.
  close();
  expect(connections.isHttpFull(first)).toBe(true);
});

test.each([256, 1_024, 8_192, 20_000, 1_048_576])(
  "with %i open files, there is room for more than connections",
  (limit) => {
    const { connections } = budgetFor(limit);
    expect(connections).toBeGreaterThan(limit / 3);
    expect(connections + 100).toBeLessThan(limit);
  },
);

test("an operator is warned of few open files only", () => {
  expect(fewOpenFiles(budgetFor(1_024))).toBe("open files are limited to 1024, enough for 896 connections at a time");
  expect(fewOpenFiles(budgetFor(20_000))).toBeUndefined();
  expect(openFileLimit()).toBeGreaterThan(100);
});
