/** Which clients share a rate limit and caps per address. */
import { describe, expect, it } from "vitest";
import { clientAddress } from "../../src/http/request/address.ts";

const OF_WORKERS = "2a06:98c0:3600::103";
const edge = { clientIpHeader: "CF-Connecting-IP" };
const from = (address: string, zone?: string) =>
  new Headers({ "CF-Connecting-IP": address, ...(zone !== undefined && { "CF-Worker": zone }) });

describe("a Worker of another zone", () => {
  it("counts for its zone, since all such Workers show one address", () => {
    expect(clientAddress(edge, from(OF_WORKERS, "one.example"))).toBe("worker of one.example");
    expect(clientAddress(edge, from(OF_WORKERS, "Two.Example"))).toBe("worker of two.example");
    expect(clientAddress({ clientIpHeader: "cf-connecting-ip" }, from(OF_WORKERS, "x"))).toBe("worker of x");
  });

  it("counts for that address if no zone is named", () => {
    expect(clientAddress(edge, from(OF_WORKERS))).toBe(OF_WORKERS);
    expect(clientAddress(edge, from(OF_WORKERS, ""))).toBe(OF_WORKERS);
  });

  it("is not played by a client with an address of its own", () => {
    expect(clientAddress(edge, from("192.0.2.1", "one.example"))).toBe("192.0.2.1");
  });

  it("is known by the edge's header only", () => {
    const headers = new Headers({ "X-Real-IP": OF_WORKERS, "CF-Worker": "one.example" });
    expect(clientAddress({ clientIpHeader: "X-Real-IP" }, headers)).toBe(OF_WORKERS);
    expect(clientAddress({ clientIpHeader: "" }, from(OF_WORKERS, "one.example"), "198.51.100.1")).toBe("198.51.100.1");
  });
});
