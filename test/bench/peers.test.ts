import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../bench/load/protobuf.ts";
import { encodeRequest, replyLength } from "../../bench/load/redis.ts";
import { readOptions, UsageError } from "../../bench/options.ts";
import { PEERS, whereIs } from "../../bench/peers.ts";

describe("RESP", () => {
  it("requests are arrays of bulk strings", () => {
    expect(encodeRequest(["SET", "key", ""])).toBe("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
  });

  it.each([
    ["+OK\r\n", 5],
    [":1\r\n+OK\r\n", 4],
    ["$-1\r\n", 5],
    ["$3\r\nabc\r\n", 9],
    ["$3\r\nabc", 0],
    ["-NOSCRIPT no\r\n", 14],
    ["+O", 0],
    ["", 0],
  ])("the first reply in %j has %d bytes", (text, length) => expect(replyLength(text)).toBe(length));
});

describe("protocol buffers", () => {
  it("carry numbers and bytes there and back", () => {
    const fields = { 1: Buffer.from("key"), 2: 7_587_875_094_127_104_005n, 3: 0n, 20: 300n };
    expect(Object.fromEntries(decodeMessage(encodeMessage(fields)))).toEqual(fields);
    expect(encodeMessage({ 1: 150n }).toString("hex")).toBe("089601");
  });

  it("that end too early are refused", () => {
    expect(() => decodeMessage(Buffer.from("0896", "hex"))).toThrow("ends too early");
  });
});

describe("peers", () => {
  it("are found on the path, if they can be run", () => {
    const folder = mkdtempSync(join(tmpdir(), "holdfast-peers-"));
    const file = join(folder, "etcd");
    writeFileSync(file, "");
    expect(whereIs("etcd", `/nowhere:${folder}`)).toBeUndefined();
    chmodSync(file, 0o755);
    expect(whereIs("etcd", `/nowhere:${folder}`)).toBe(file);
    expect(whereIs("redis-server", folder)).toBeUndefined();
    rmSync(folder, { recursive: true });
  });

  it("are started on the port and in the folder given, and their versions read", () => {
    for (const peer of PEERS) {
      expect(peer.arguments(7_001, "/data", 7_002).join(" ")).toContain("7001");
      if (peer.isDurable) expect(peer.arguments(7_001, "/data", 7_002)).toContain("/data");
    }
    const versions = PEERS.map(({ name, version }) => [
      name,
      version("Redis server v=7.0.15 sha=0\netcd Version: 3.4.23\n"),
    ]);
    expect(Object.fromEntries(versions)).toMatchObject({ etcd: "3.4.23", "Redis, default": "7.0.15" });
  });
});

describe("options", () => {
  it("ask for everything, for the goals, or for parts", () => {
    expect(readOptions([])).toMatchObject({ report: false, goals: false, rounds: 6, only: ["cycles", "capacity"] });
    expect(readOptions(["--report", "--seconds", "1.5"])).toMatchObject({ report: true, seconds: 1.5 });
    expect(readOptions(["--only", "sticky,quorum"])?.only).toEqual(["sticky", "quorum"]);
    expect(() => readOptions(["--only", "floor"])).toThrow(UsageError);
    expect(() => readOptions(["--rounds", "0"])).toThrow("--rounds must be a number above 0");
  });

  it("do not write a page that lacks a part", () => {
    expect(() => readOptions(["--report", "--only", "cycles"])).toThrow("--report needs cycles and capacity");
  });
});
