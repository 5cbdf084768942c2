import { describe, expect, it } from "vitest";
import { type IncomingAction, IncomingRelay } from "../../src/core/group/incoming.ts";

const OWN = { id: "s0", version: "holdfast/1.0.0", peers: ["p1"] };

/** What a line leads to that comes from a peer with this version. */
function take(version: string, line: string): IncomingAction {
  const relay = new IncomingRelay(OWN, { phase: "introduced", id: "p1", version });
  return relay.take(new TextEncoder().encode(line));
}

describe("a COMM with a fence", () => {
  it("is a question if the peer's version exchanges fences", () => {
    const action = take("holdfast/1.0.0", "COMM k 1000 n 77");
    expect(action).toMatchObject({ type: "ask", question: { type: "comm", timeoutMs: 1000, fence: 77n } });
  });

  it("has a field too many if it does not", () => {
    const fault = { word: "invalid-message", nonce: "-" };
    expect(take("1.0.0", "COMM k 1000 n 77")).toEqual({ type: "refuse", fault });
    expect(take("1.0.0", "COMM k 1000 n")).toMatchObject({ type: "ask", question: { type: "comm" } });
  });
});
