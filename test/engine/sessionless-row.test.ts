import { describe, expect, it } from "vitest";
import type { Sessionless } from "../../src/core/engine/index.ts";
import { decodeSessionless, encodeSessionless } from "../../src/core/key/sessionless-row.ts";

describe("the stored form of a holder without a session", () => {
  const holders: readonly Sessionless[] = [
    { kind: "file", note: "42" },
    { kind: "file", note: "0", tag: "", mark: "00ff" },
    { kind: "terraform", note: '{"ID":"a1","Info":"é \\"q\\" \\u0000"}\n', tag: "u@h", mark: "a1" },
  ];
  it.each(holders)("is read as it was written: %j", (holder) => {
    expect(decodeSessionless(encodeSessionless(holder))).toEqual(holder);
  });

  it("is read in its first shape", () => {
    const first = '{"v":1,"kind":"file","mark":"0a","tag":"deploy","note":"42"}';
    expect(decodeSessionless(first)).toEqual({ kind: "file", mark: "0a", tag: "deploy", note: "42" });
  });

  it("is refused if its shape is newer", () => {
    expect(() => decodeSessionless('{"v":2,"kind":"file"}')).toThrow("shape 2");
  });
});
