import { expect, it } from "vitest";
import { Partial } from "../../src/core/protocols/partial.ts";

it("a long line that arrives byte by byte is not copied for each of them", () => {
  const partial = new Partial();
  const buffers = new Set<ArrayBufferLike>();
  for (let count = 0; count < 65_536; count += 1) {
    partial.add(Uint8Array.of(count % 251));
    buffers.add(partial.from(0).buffer);
  }
  expect(buffers.size).toBeLessThan(20);
  expect(partial.from(0)).toEqual(Uint8Array.from({ length: 65_536 }, (_, count) => count % 251));
});

it("what was taken from it stays as it is", () => {
  const partial = new Partial();
  partial.add(Uint8Array.of(1, 2));
  const first = partial.from(0);
  partial.add(Uint8Array.of(3));
  const rest = partial.from(1);
  partial.clear();
  partial.add(Uint8Array.of(9, 9, 9));
  expect([[...first], [...rest]]).toEqual([
    [1, 2],
    [2, 3],
  ]);
});
