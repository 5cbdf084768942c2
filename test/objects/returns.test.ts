import { afterEach, describe, expect, it, vi } from "vitest";
import { isRush, noteReturn, patienceFor, untilCalm } from "../../src/objects/returns.ts";

const renewal = (leaseSeconds: number | undefined) => ({ type: "renew", key: "k", token: "t", leaseSeconds }) as const;

function manyReturnAt(now: number): void {
  for (let count = 0; count < 20; count += 1) noteReturn(now);
}

describe("sessions that are taken up again", () => {
  afterEach(() => vi.restoreAllMocks());

  it("are a rush when many come within a moment, until that is over", () => {
    const now = Date.now() + 60_000;
    expect(isRush(now)).toBe(false);
    for (let count = 0; count < 5; count += 1) noteReturn(now);
    expect(isRush(now)).toBe(false);
    manyReturnAt(now);
    expect(isRush(now)).toBe(true);
    expect(isRush(now + 1_000)).toBe(false);
    expect(isRush(now - 1_000)).toBe(false);
  });

  it("wait for no more than a fifth of the lease they want to renew, and never long enough to lose a session", () => {
    expect(patienceFor(renewal(5), 33_000)).toBe(1_000);
    expect(patienceFor(renewal(33), 33_000)).toBe(6_600);
    expect(patienceFor(renewal(3_600), 33_000)).toBe(8_000);
    expect(patienceFor(renewal(undefined), 5_000)).toBe(1_000);
    expect(patienceFor({ type: "acquire", key: "k", limit: 1, waitSeconds: 60, leaseSeconds: 1 }, 33_000)).toBe(8_000);
    expect(patienceFor({ type: "release", key: "k", token: "t" }, 33_000)).toBe(0);
  });

  it("ask at once if there is no rush, and go on when their patience or the rush is over", async () => {
    const waits = vi.spyOn(scheduler, "wait");
    await untilCalm(renewal(33), 33_000);
    expect(waits).not.toHaveBeenCalled();
    manyReturnAt(Date.now());
    await untilCalm(renewal(1), 33_000);
    expect(waits.mock.calls.flat().every((ms) => typeof ms === "number" && ms <= 200)).toBe(true);
    manyReturnAt(Date.now());
    await untilCalm(renewal(33), 33_000);
    expect(isRush(Date.now())).toBe(false);
  });
});
