import { expect, it } from "vitest";
import { cycle } from "../../bench/load/cycles.ts";
import { startServer } from "../support/server.ts";

it("clients of the benchmark take and release locks over every transport, and see hand-overs of a hot key", async () => {
  await using server = await startServer();
  const [tcp, http] = [server.tcpPort, server.httpPort].map((port) => ({ host: "127.0.0.1", port }));
  if (!tcp || !http) throw new Error("no ports");
  const work = { work: "cycles", clients: 3, leadInMs: 20, ms: 100 } as const;
  for (const [transport, address] of Object.entries({ tcp, ws: http, rest: http })) {
    const ask = { ...work, address, transport: transport as "tcp" | "ws" | "rest" };
    const own = await cycle({ ...ask, pattern: "own" });
    expect(own.cycles.length).toBeGreaterThan(0);
    expect(own.handOvers.length).toBe(0);
    const hot = await cycle({ ...ask, pattern: "hot" });
    expect(hot.handOvers.length).toBeGreaterThan(0);
    expect(hot.cyclesRun).toBeGreaterThanOrEqual(hot.cycles.length);
  }
});
