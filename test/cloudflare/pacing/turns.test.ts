import { describe, expect, it, vi } from "vitest";
import { Turns } from "../../../src/cloudflare/pacing/turns.ts";

describe("turns", () => {
  it("let few tasks run at a time, in the order in which they came", async () => {
    const turns = new Turns({ width: 3, perPause: 100 });
    const begun: number[] = [];
    let running = 0;
    let mostRunning = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        turns.run(async () => {
          begun.push(index);
          running += 1;
          mostRunning = Math.max(mostRunning, running);
          await scheduler.wait(1);
          running -= 1;
        }),
      ),
    );
    expect(mostRunning).toBe(3);
    expect(begun).toEqual(Array.from({ length: 20 }, (_, index) => index));
  });

  it("begin at once where one is free", () => {
    const task = vi.fn(async () => {});
    void new Turns({ width: 1, perPause: 1 }).run(task);
    expect(task).toHaveBeenCalledTimes(1);
  });

  it("pause after so many, however quickly they end", async () => {
    const turns = new Turns({ width: 2, perPause: 10 });
    const pauses = vi.spyOn(scheduler, "wait");
    await Promise.all(Array.from({ length: 35 }, () => turns.run(async () => {})));
    expect(pauses).toHaveBeenCalledTimes(3);
    pauses.mockRestore();
  });

  it("need no pause where others have been read meanwhile", async () => {
    const turns = new Turns({ width: 2, perPause: 10 });
    const pauses = vi.spyOn(scheduler, "wait");
    for (let task = 0; task < 35; task++) {
      turns.rested();
      await turns.run(async () => {});
    }
    expect(pauses).not.toHaveBeenCalled();
    pauses.mockRestore();
  });

  it("are given back by a task that fails", async () => {
    const turns = new Turns({ width: 1, perPause: 100 });
    await expect(turns.run(() => Promise.reject(new Error("failed")))).rejects.toThrow("failed");
    expect(await turns.run(async () => "next")).toBe("next");
  });
});
