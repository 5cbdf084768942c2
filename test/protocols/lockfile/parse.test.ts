import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type LockFields, parseLockText } from "../../../src/core/protocols/lockfile/index.ts";

const bytesOf = (text: string) => Uint8Array.from(Buffer.from(text, "latin1"));
const utf8 = (text: string) => new TextEncoder().encode(text);
const BLOCK = "pid=1\ntimestamp=2\n";

/** The bytes, one character each; what is read, or undefined for malformed; and why. */
type Vector = readonly [name: string, bytes: string, read: LockFields | undefined];

const two = { pid: 1, timestamp: 2 };

const VECTORS: readonly Vector[] = [
  [
    "V01 all fields",
    "pid=12345\ntimestamp=1234567890\ntag=my-tag\n",
    { pid: 12345, timestamp: 1234567890, tag: "my-tag" },
  ],
  ["V02 no tag", BLOCK, two],
  ["V03 last line feed missing", "pid=1\ntimestamp=2", two],
  ["V04 other order", "timestamp=2\npid=1\n", two],
  ["V05 CRLF, empty line, unknown key", "pid=1\r\n\r\ntimestamp=2\r\nx=y\r\n", two],
  ["V06 CRLF after the tag", "pid=1\ntimestamp=2\ntag=x\r\n", { ...two, tag: "x" }],
  ["V07 the last pid counts", "pid=7\npid=8\ntimestamp=1\n", { pid: 8, timestamp: 1 }],
  ["V08 also when it is bad", "pid=7\npid=x\ntimestamp=1\n", undefined],
  ["V09 a bad pid before a good one", "pid=x\npid=7\ntimestamp=1\n", { pid: 7, timestamp: 1 }],
  ["V10 the first = splits", `${BLOCK}tag=a=b=c\n`, { ...two, tag: "a=b=c" }],
  ["V11 empty tag", `${BLOCK}tag=\n`, { ...two, tag: "" }],
  ["V12 leading blanks of a value stay", `${BLOCK}tag=  lead\n`, { ...two, tag: "  lead" }],
  ["V13 trailing blanks go", `${BLOCK}tag=trail  \n`, { ...two, tag: "trail" }],
  ["V14 the last tag counts", `${BLOCK}tag=one\ntag=two\n`, { ...two, tag: "two" }],
  ["V15 lines are trimmed", " pid=7 \n timestamp=1 \n", { pid: 7, timestamp: 1 }],
  ["V16 of tabs, too", "pid=1\n\ttimestamp=2\n", two],
  ["V17 blank before =", "pid = 7\ntimestamp=1\n", undefined],
  ["V18 blank after =", "pid= 7\ntimestamp=1\n", undefined],
  ["V19 plus signs", "pid=+7\ntimestamp=+1\n", { pid: 7, timestamp: 1 }],
  ["V20 leading zeros", "pid=007\ntimestamp=001\n", { pid: 7, timestamp: 1 }],
  ["V21 negative pid", "pid=-1\ntimestamp=1\n", undefined],
  ["V22 letters after digits", "pid=12abc\ntimestamp=1\n", undefined],
  ["V23 no comments", "pid=1 # c\ntimestamp=2\n", undefined],
  ["V24 largest pid", "pid=4294967295\ntimestamp=1\n", { pid: 4294967295, timestamp: 1 }],
  ["V25 pid too large", "pid=4294967296\ntimestamp=1\n", undefined],
  ["V26 zeros", "pid=0\ntimestamp=0\n", { pid: 0, timestamp: 0 }],
  ["V27 fraction", "pid=1\ntimestamp=1.5\n", undefined],
  ["V28 negative timestamp", "pid=1\ntimestamp=-5\n", undefined],
  ["V29 largest timestamp", "pid=1\ntimestamp=9007199254740991\n", { pid: 1, timestamp: Number.MAX_SAFE_INTEGER }],
  ["V30 timestamp too large", "pid=1\ntimestamp=9007199254740992\n", undefined],
  ["V31 no timestamp", "pid=1\n", undefined],
  ["V32 no pid", "timestamp=1\n", undefined],
  ["V33 only a tag", "tag=x\n", undefined],
  ["V34 empty pid", "pid=\ntimestamp=2\n", undefined],
  ["V35 keys are case-sensitive", "PID=1\nTIMESTAMP=2\n", undefined],
  ["V36 a line without =", `hello\n${BLOCK}`, two],
  ["V37 an empty key", `=5\n${BLOCK}`, two],
  ["V38 an empty file", "", undefined],
  ["V38 empty lines", "\n\n", undefined],
  ["V38 blanks", "   ", undefined],
  ["V39 a lone CR ends no line", "pid=1\rtimestamp=2\r", undefined],
  ["V40 byte-order mark", `\xef\xbb\xbf${BLOCK}`, undefined],
  ["V41 not UTF-8", `${BLOCK}tag=\xff\xfe\n`, undefined],
  ["V42 not a text", "\x00\x01\x02\xff\xfe", undefined],
  ["V43 NUL ends no line", "pid=1\x00timestamp=2\x00", undefined],
  ["V44 UTF-8", `${BLOCK}tag=caf\xc3\xa9 \xe2\x82\xac\n`, { ...two, tag: "café €" }],
  ["V45 a TAB stays", `${BLOCK}tag=a\tb\n`, { ...two, tag: "a\tb" }],
  ["V46 no-break space is not trimmed", "pid=1\xc2\xa0\ntimestamp=2\n", undefined],
  ["V47 fields of holdfast", `${BLOCK}host=h\nnonce=00ff\nfence=9\n`, { ...two, host: "h", nonce: "00ff", fence: 9n }],
  ["V48 a bad nonce is none", `${BLOCK}nonce=XYZ\n`, two],
  ["V49 65,536 bytes", `${"x".repeat(65_535 - BLOCK.length)}\n${BLOCK}`, two],
  ["V49 65,537 bytes", `${"x".repeat(65_536 - BLOCK.length)}\n${BLOCK}`, undefined],
  ["V50 1 MiB of x", "x".repeat(1 << 20), undefined],
];

describe("the content of a lock file", () => {
  it.each(VECTORS)("%s", (_, bytes, read) => {
    expect(parseLockText(bytesOf(bytes))).toEqual(read ? { kind: "well-formed", ...read } : { kind: "malformed" });
  });

  it("has optional fields that are absent when they are bad, the last one deciding", () => {
    const read = (lines: string) => parseLockText(utf8(BLOCK + lines));
    expect(read("fence=18446744073709551615\nexpires=7\n")).toMatchObject({ fence: 2n ** 64n - 1n, expires: 7 });
    expect(read("fence=x\nexpires=-1\nnonce=\n")).toEqual({ kind: "well-formed", ...two });
    expect(read("nonce=00\nnonce=G\n")).toEqual({ kind: "well-formed", ...two });
    expect(read(`nonce=${"a".repeat(64)}\n`)).toMatchObject({ nonce: "a".repeat(64) });
    expect(read(`nonce=${"a".repeat(65)}\n`)).toEqual({ kind: "well-formed", ...two });
    expect(read("host=\n")).toMatchObject({ host: "" });
  });

  it("never throws, whatever the bytes are", () => {
    const line = fc.constantFrom("pid=", "timestamp=", "tag=", "nonce=", "1", "+", "\n", "\r", "\xff", "=", " ");
    const noise = fc.array(line, { maxLength: 30 }).map((parts) => bytesOf(parts.join("")));
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), noise), (bytes) => {
        expect(["well-formed", "malformed"]).toContain(parseLockText(bytes).kind);
      }),
    );
  });
});
