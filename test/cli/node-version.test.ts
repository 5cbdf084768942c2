import { expect, test } from "vitest";
import { checkNode } from "../../src/cli/commands/server.ts";

test.each(["22.13.0", "22.21.1", "23.0.0", "24.11.1", "100.0.0"])("the server runs on Node %s", (version) => {
  expect(() => checkNode(version)).not.toThrow();
});

test.each(["18.20.8", "20.20.0", "22.12.0", "22.9.0"])("the server refuses Node %s in one line", (version) => {
  expect(() => checkNode(version)).toThrow(
    expect.objectContaining({
      message: `holdfast serve needs Node 22.13 or newer, and this is ${version}`,
      exitCode: 1,
    }),
  );
});
