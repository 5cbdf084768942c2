import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Refresher, type RefreshOutcome } from "../../../src/cli/run/refresher.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A refresher whose file answers what `answer` says, and when it was asked. */
function refresher(
  staleSeconds: number,
  answer: (timeoutSeconds: number) => RefreshOutcome | Promise<RefreshOutcome> = () => ({ type: "done" }),
) {
  const start = performance.now();
  const askedAt: number[] = [];
  const subject = new Refresher(async (timeoutSeconds) => {
    askedAt.push((performance.now() - start) / 1000);
    return answer(timeoutSeconds);
  }, staleSeconds);
  const lost = vi.fn();
  void subject.lost.then(lost);
  return { subject, askedAt, lost };
}

describe("a lock file is refreshed", () => {
  it.each([
    [3_600, 300],
    [900, 300],
    [90, 30],
    [3, 1],
    [1, 1],
  ])("with a stale time of %i s every %i s", async (stale, every) => {
    const { askedAt, subject } = refresher(stale);
    await vi.advanceTimersByTimeAsync(every * 3_000);
    expect(askedAt).toEqual([every, 2 * every, 3 * every]);
    expect(subject.isLost).toBe(false);
  });

  it("never with a stale time of 0", async () => {
    const { askedAt } = refresher(0);
    await vi.advanceTimersByTimeAsync(86_400_000);
    expect(askedAt).toEqual([]);
  });

  it("not once it is stopped", async () => {
    const { askedAt, subject } = refresher(3);
    await subject.stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(askedAt).toEqual([]);
  });

  it("again every second after a failure, and then as before", async () => {
    let failures = 2;
    const { askedAt, lost } = refresher(90, () => {
      failures -= 1;
      return failures >= 0 ? { type: "failed", reason: "disk" } : { type: "done" };
    });
    await vi.advanceTimersByTimeAsync(63_000);
    expect(askedAt).toEqual([30, 31, 32, 62]);
    expect(lost).not.toHaveBeenCalled();
  });

  it("and counts as lost after nine tenths of the stale time without success", async () => {
    const { askedAt, lost } = refresher(90, () => ({ type: "failed", reason: "no space left on device" }));
    await vi.advanceTimersByTimeAsync(80_900);
    expect(lost).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(200);
    expect(lost).toHaveBeenCalledWith("it could not be refreshed in time (no space left on device)");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(askedAt.at(-1)).toBe(80);
  });

  it("and counts as lost at that time also while a refresh hangs", async () => {
    const { askedAt, lost } = refresher(3, () => new Promise(() => {}));
    await vi.advanceTimersByTimeAsync(2_690);
    expect(lost).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(20);
    expect(lost).toHaveBeenCalledWith("it could not be refreshed in time (a refresh did not end)");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(askedAt).toEqual([1]);
  });

  it("and each refresh is told to give up before that, so that its reason can be told", async () => {
    const timeouts: number[] = [];
    const { lost } = refresher(3, async (timeoutSeconds) => {
      timeouts.push(timeoutSeconds);
      await new Promise((resolve) => setTimeout(resolve, timeoutSeconds * 1000));
      return { type: "failed", reason: "busy" };
    });
    await vi.advanceTimersByTimeAsync(2_710);
    expect(timeouts).toEqual([expect.closeTo(1.65, 2)]);
    expect(lost).toHaveBeenCalledWith("it could not be refreshed in time (busy)");
  });

  it("and a refresh that hangs for a while is no loss", async () => {
    const { askedAt, lost, subject } = refresher(30, async () => {
      await new Promise((resolve) => setTimeout(resolve, 8_000));
      return { type: "done" };
    });
    await vi.advanceTimersByTimeAsync(90_000);
    expect(askedAt).toEqual([10, 28, 46, 64, 82]);
    expect(lost).not.toHaveBeenCalled();
    const stopping = subject.stop();
    await vi.advanceTimersByTimeAsync(8_000);
    await stopping;
  });

  it("also with a stale time that no timer is long enough for", async () => {
    const { lost, askedAt } = refresher(100_000_000);
    await vi.advanceTimersByTimeAsync(301_000);
    expect(askedAt).toEqual([300]);
    expect(lost).not.toHaveBeenCalled();
  });

  it("and is lost at once when it is another's", async () => {
    const { lost } = refresher(90, () => ({ type: "lost", reason: "its file is gone" }));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(lost).toHaveBeenCalledWith("its file is gone");
  });
});
