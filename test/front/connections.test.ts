import { expect, test } from "vitest";
import { Connections } from "../../src/front/limits/connections.ts";
import { budgetFor } from "../../src/front/limits/open-files.ts";

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

test("20,000 open files are enough for 2,500 clients that come back, and some who look on", () => {
  expect(budgetFor(20_000).connections).toBeGreaterThan(2_550);
});

test.each([256, 1_024, 8_192, 20_000, 1_048_576])(
  "with %i open files, connections, keys in use and idle sessions fit together",
  (limit) => {
    const { connections, awakeKeys, awakeSessions } = budgetFor(limit);
    expect(connections).toBeGreaterThan(15);
    expect(awakeKeys).toBeGreaterThan(15);
    expect(awakeSessions).toBeGreaterThan(5);
    expect(connections * 5 + awakeKeys * 3 + awakeSessions * 3).toBeLessThan(limit);
  },
);
