import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { edgeTable, percentile, readEdgeOptions } from "../../bench/edge.ts";

describe("npm run bench:edge", () => {
  it("takes the service from its flags or the environment", () => {
    const url = "https://locks.example/";
    expect(readEdgeOptions(["--url", url, "--token", "t"])).toEqual({
      url: "https://locks.example",
      token: "t",
      samples: 50,
    });
    expect(readEdgeOptions(["--samples", "3"], { HOLDFAST_URL: url, HOLDFAST_TOKEN: "t" })).toEqual({
      url: "https://locks.example",
      token: "t",
      samples: 3,
    });
  });

  it.each(["s3cret\n", "ADMIN_TOKEN=x\nAUTH_TOKEN=s3cret\n"])("finds the token in a file: %j", (text) => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "token");
    writeFileSync(file, text);
    expect(readEdgeOptions(["--url", "http://x", "--token-file", file]).token).toBe("s3cret");
  });

  it.each([
    [[], "--url is missing, for example --url https://holdfast.you.workers.dev"],
    [["--url", "locks.example"], '--url must begin with http:// or https://, not "locks.example"'],
    [["--url", "http://x", "--samples", "0"], '--samples must be a whole number from 1 to 10000, not "0"'],
    [["--url", "http://x", "--token", "a", "--token-file", "b"], "--token and --token-file exclude each other"],
    [["--url", "http://x", "--token-file", "/nowhere"], "--token-file /nowhere cannot be read"],
    [["--ulr", "http://x"], /--ulr/],
  ])("%j is refused", (args, message) => {
    expect(() => readEdgeOptions(args)).toThrow(message);
  });

  it("prints percentiles, of which each is a sample", () => {
    const samples = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect([0.5, 0.9, 0.99, 1].map((part) => percentile(samples, part))).toEqual([50, 90, 99, 100]);
    expect(percentile([7], 0.5)).toBe(7);
    expect(edgeTable(new Map([["cycle", [1, 2, 3]]]))).toBe(
      "| ms | p50 | p90 | p99 |\n|---|---|---|---|\n| cycle | 2.0 | 3.0 | 3.0 |",
    );
  });
});
