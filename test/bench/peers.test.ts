import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readOptions, UsageError } from "../../bench/options.ts";
import { PEERS, whereIs } from "../../bench/peers/peers.ts";
import { decodeMessage, encodeMessage } from "../../bench/peers/protobuf.ts";
import { decodeReply, encodeRequest } from "../../bench/peers/redis.ts";
import { withoutWarnings } from "../../bench/server-log.ts";

describe("RESP", () => {
  it("requests are arrays of bulk strings, by bytes", () => {
    expect(encodeRequest(["SET", "ü", ""])).toBe("*3\r\n$3\r\nSET\r\n$2\r\nü\r\n$0\r\n\r\n");
  });

  it.each([
    ["+OK\r\n", "OK"],
    [":1\r\n", 1],
    ["$-1\r\n", null],
    ["$3\r\nabc\r\n", "abc"],
    ["$3\r\nab", undefined],
    ["+O", undefined],
    ["", undefined],
  ])("%j is read as %j", (text, reply) => expect(decodeReply(text)).toEqual(reply));

  it("an error is one", () => {
    expect(decodeReply("-NOSCRIPT no\r\n")).toEqual(new Error("NOSCRIPT no"));
    expect(decodeReply("*0\r\n")).toBeInstanceOf(Error);
  });
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
  it("ask for the report, or for what is measured without it", () => {
    expect(readOptions([])).toMatchObject({ report: false, seconds: 3, rounds: 6, patterns: ["own", "hot"] });
    expect(readOptions(["--report", "--seconds", "1.5"])).toMatchObject({ report: true, seconds: 1.5 });
    expect(readOptions(["--patterns", "fresh,visit"])?.patterns).toEqual(["fresh", "visit"]);
    expect(() => readOptions(["--patterns", "cold"])).toThrow(UsageError);
    expect(() => readOptions(["--report", "--rounds", "0"])).toThrow("--rounds must be a number above 0");
  });
});

describe("a server's log", () => {
  it("is passed on line by line, without workerd's own warnings", () => {
    const lines: string[] = [];
    const take = withoutWarnings((line) => lines.push(line));
    take("workerd/server/server/worker.rs:450: warning: A Durable");
    take('ObjectNamespace …\n{"event":"key_unreadable"}\nhalf');
    take(" a line\n");
    expect(lines).toEqual(['{"event":"key_unreadable"}\n', "half a line\n"]);
  });
});
