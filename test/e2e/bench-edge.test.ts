import { expect, it } from "vitest";
import { edgeTable, measureEdge } from "../../bench/edge.ts";
import { HOSTS } from "../support/hosts.ts";

it.each(HOSTS)("npm run bench:edge measures a service with a token, on $name", async (host) => {
  await using server = await host.start({ variables: { AUTH_TOKEN: "secret" } });
  const url = `http://127.0.0.1:${server.httpPort}`;
  const timings = await measureEdge({ url, token: "secret", samples: 2 }, () => {});
  const rows = edgeTable(timings).split("\n").slice(2);
  for (const name of ["connect", "first use", "cycle", "hand-over", "reconnect"])
    expect(rows.some((row) => row.startsWith(`| ${name}`))).toBe(true);
  for (const samples of timings.values()) expect(samples.every((ms) => ms > 0)).toBe(true);
});
