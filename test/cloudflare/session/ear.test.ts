import { describe, expect, it } from "vitest";
import { PacedInput } from "../../../src/cloudflare/session/paced-input.ts";

describe("a connection that is heard in pieces", () => {
  it("is heard again after a failure, and grows no backlog", async () => {
    const heard: number[] = [];
    let isBroken = true;
    const ear = new PacedInput((piece) => {
      if (isBroken) throw new Error("the socket is broken");
      heard.push(piece.length);
      return 0;
    }, 4);
    await expect(ear.take(new Uint8Array(40_000))).rejects.toThrow("broken");
    ear.forget();
    isBroken = false;
    expect(ear.take(new Uint8Array(5))).toBeUndefined();
    await ear.take(new Uint8Array(20_000));
    expect(heard).toEqual([5, 16_384, 3_616]);
  });
});
