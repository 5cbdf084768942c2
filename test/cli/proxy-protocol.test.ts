import { describe, expect, test } from "vitest";
import { parseProxyHeader } from "../../src/cli/bridge/proxy-protocol.ts";

const SIGNATURE = Buffer.from("0d0a0d0a000d0a515549540a", "hex");

function v2(command: number, family: number, rest: Buffer): Buffer {
  const fixed = Buffer.from([command, family, rest.length >> 8, rest.length & 0xff]);
  return Buffer.concat([SIGNATURE, fixed, rest]);
}

const IPV4 = Buffer.from([203, 0, 113, 7, 10, 0, 0, 1, 0xdb, 0x24, 0x18, 0xf4]);
const IPV6 = Buffer.concat([
  Buffer.from("20010db8000000000000000000000042", "hex"),
  Buffer.from("20010db8000000000000000000000001", "hex"),
  Buffer.from([0xdb, 0x24, 0x18, 0xf4]),
]);
const TLV = Buffer.from([0x04, 0x00, 0x03, 1, 2, 3]);

const GOOD: readonly [string, Buffer, string | undefined][] = [
  ["v1 TCP4", Buffer.from("PROXY TCP4 203.0.113.7 10.0.0.1 56100 6388\r\n"), "203.0.113.7"],
  ["v1 TCP6", Buffer.from("PROXY TCP6 2001:db8::42 2001:db8::1 56100 6388\r\n"), "2001:db8::42"],
  ["v1 UNKNOWN", Buffer.from("PROXY UNKNOWN\r\n"), undefined],
  ["v1 UNKNOWN with a rest", Buffer.from("PROXY UNKNOWN ffff:: ffff:: 65535 65535\r\n"), undefined],
  ["v2 TCP4", v2(0x21, 0x11, IPV4), "203.0.113.7"],
  ["v2 TCP6", v2(0x21, 0x21, IPV6), "2001:db8::42"],
  ["v2 TCP4 with extensions", v2(0x21, 0x11, Buffer.concat([IPV4, TLV])), "203.0.113.7"],
  ["v2 LOCAL", v2(0x20, 0x00, Buffer.alloc(0)), undefined],
  ["v2 LOCAL with an address", v2(0x20, 0x11, IPV4), undefined],
  ["v2 UNSPEC", v2(0x21, 0x00, TLV), undefined],
];

describe("PROXY protocol", () => {
  test.each(GOOD)("%s is read, whatever the split and whatever follows", (_, header, address) => {
    for (let length = 0; length < header.length; length++) {
      expect(parseProxyHeader(header.subarray(0, length))).toEqual({ kind: "incomplete" });
    }
    const expected = { kind: "header", address, length: header.length };
    expect(parseProxyHeader(header)).toEqual(expected);
    expect(parseProxyHeader(Buffer.concat([header, Buffer.from("l\nk\n0\n")]))).toEqual(expected);
  });

  test.each([
    ["no header", Buffer.from("ping\n_\n_\n")],
    ["one wrong first byte", Buffer.from("l")],
    ["lower case", Buffer.from("proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n")],
    ["v1 without its line end in 107 bytes", Buffer.from(`PROXY UNKNOWN ${"x".repeat(100)}`)],
    ["v1 with an IPv6 address as TCP4", Buffer.from("PROXY TCP4 ::1 ::1 1 2\r\n")],
    ["v1 with an address that is none", Buffer.from("PROXY TCP4 1.1.1.256 2.2.2.2 1 2\r\n")],
    ["v1 with a port too high", Buffer.from("PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n")],
    ["v1 with a port missing", Buffer.from("PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n")],
    ["v1 with a field too many", Buffer.from("PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n")],
    ["v1 with another protocol", Buffer.from("PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n")],
    ["v2 with a wrong signature", Buffer.concat([SIGNATURE.subarray(0, 11), Buffer.from("x")])],
    ["v2 with another version", v2(0x11, 0x11, IPV4)],
    ["v2 with an unknown command", v2(0x22, 0x11, IPV4)],
    ["v2 UDP", v2(0x21, 0x12, IPV4)],
    ["v2 TCP4 with too few bytes", v2(0x21, 0x11, IPV4.subarray(0, 11))],
    ["v2 TCP6 with too few bytes", v2(0x21, 0x21, IPV6.subarray(0, 35))],
    ["v2 announcing an absurd length", v2(0x21, 0x11, Buffer.alloc(4097))],
  ])("%s is invalid", (_, bytes) => {
    expect(parseProxyHeader(bytes)).toEqual({ kind: "invalid" });
  });
});
