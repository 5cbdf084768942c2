import { expect, test } from "vitest";
import { heardWords, quorumWords } from "../../../src/console/shared/group.ts";

test("a peer is told by when it was last heard from", () => {
  expect(heardWords({ id: "s1", present: true, heard_s: 0.4 })).toBe("heard 400 ms ago");
  expect(heardWords({ id: "s1", present: false, heard_s: 41.5 })).toBe("silent for 42 s");
  expect(heardWords({ id: "s1", present: false })).toBe("not heard from");
});

test("a quorum is told with its numbers, this deployment included", () => {
  const peers = [
    { id: "s1", present: true, heard_s: 1 },
    { id: "s2", present: false },
  ];
  expect(quorumWords({ id: "s0", quorum_need: 2, quorum_ok: true, peers })).toBe(
    "Quorum: 2 of 3 deployments, 2 needed",
  );
  const alone = peers.map((peer) => ({ ...peer, present: false }));
  expect(quorumWords({ id: "s0", quorum_need: 2, quorum_ok: false, peers: alone })).toBe(
    "No quorum: 1 of 3 deployments, 2 needed",
  );
});
