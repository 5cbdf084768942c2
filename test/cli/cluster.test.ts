import { expect, test } from "vitest";
import { readClusterOptions } from "../../scripts/cluster-options.ts";

test("a cluster has three servers on free ports, and nobody is killed, unless told otherwise", () => {
  const defaults = { size: 3, killEverySeconds: undefined, port: undefined, dataDir: ".holdfast-cluster" };
  expect(readClusterOptions([])).toEqual(defaults);
  expect(readClusterOptions(["5", "--kill-every", "2.5", "--port", "7000"])).toEqual({
    ...defaults,
    size: 5,
    killEverySeconds: 2.5,
    port: 7000,
  });
  for (const args of [["0"], ["10"], ["x"], ["3", "4"], ["--kill-every", "0"], ["--bogus"]])
    expect(() => readClusterOptions(args)).toThrow();
});
