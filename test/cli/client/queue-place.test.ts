import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { busyLine, placeLine, showPlace } from "../../../src/cli/service/queue-place.ts";
import type { KeyReport } from "../../../src/client/index.ts";

const since = "2026-11-17T02:00:00.000Z";
const report = (more: Partial<KeyReport> = {}): KeyReport => ({
  key: "deploy",
  kind: "lock",
  limit: 1,
  holders: 1,
  waiters: 3,
  held_by: [{ owner_conn_id: 1, label: "ada", fence: "0", since, held_s: 12.4, lease_s: 33, lease_expires_in_s: 20 }],
  queue: [
    { position: 1, owner_conn_id: 2, label: "ci", since, waited_s: 40 },
    { position: 2, owner_conn_id: 3, label: "ci", since, waited_s: 10.2 },
    { position: 3, owner_conn_id: 4, since, waited_s: 1 },
  ],
  ...more,
});
const inquiry = { key: "deploy", label: "ci", query: async () => report() };

describe("the place in the queue", () => {
  it("is found by label, and among equal ones by the time waited", () => {
    expect(placeLine(report(), inquiry, 10)).toBe("waiting for deploy: place 2 of 3, held by ada for 12 s");
    expect(placeLine(report(), inquiry, 41)).toBe("waiting for deploy: place 1 of 3, held by ada for 12 s");
    expect(placeLine(report(), { ...inquiry, label: "me" }, 1)).toBe(
      "waiting for deploy: 3 waiting, held by ada for 12 s",
    );
    expect(placeLine(null, inquiry, 1)).toBe("waiting for deploy");
  });

  it("is escaped where it could take over the terminal", () => {
    expect(placeLine(null, { ...inquiry, key: "\u001b[2J" }, 1)).toBe("waiting for \\u{1b}[2J");
  });

  it("who is busy is said in one line", () => {
    expect(busyLine(report(), "deploy")).toBe("busy deploy: held by ada for 12 s, 3 waiting");
    expect(busyLine(report({ limit: 4, waiters: 0 }), "deploy")).toBe("busy deploy: 1 of 4 slots held");
    expect(busyLine(null, "deploy")).toBe("busy deploy");
  });

  it("a holder without a label is named by its session, or by its protocol if it has none", () => {
    const { label: _, ...holder } = report().held_by[0] as KeyReport["held_by"][number];
    const line = (more: object) => busyLine(report({ waiters: 0, held_by: [{ ...holder, ...more }] }), "deploy");
    expect(line({})).toBe("busy deploy: held by session 1 for 12 s");
    expect(line({ protocol: "file" })).toBe("busy deploy: held by file for 12 s");
    expect(line({ protocol: "file", label: "" })).toBe("busy deploy: held by file for 12 s");
    expect(line({ protocol: "terraform" })).toBe("busy deploy: held by terraform for 12 s");
    expect(line({ protocol: "file", label: "ada" })).toBe("busy deploy: held by ada for 12 s");
  });
});

describe("on a terminal", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("the line is redrawn every second, cut to the width, and leaves no trace", async () => {
    const written: string[] = [];
    const stop = showPlace(inquiry, { write: (text) => written.push(text) }, 30);
    await vi.advanceTimersByTimeAsync(299);
    expect(written).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_002);
    expect(written).toEqual(Array.from({ length: 2 }, () => "\r\u001b[Kwaiting for deploy: place 2 …"));
    stop();
    stop();
    expect(written.slice(2)).toEqual(["\r\u001b[K"]);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(written).toHaveLength(3);
  });

  it("nothing is written for a lock that is free", async () => {
    const written: string[] = [];
    showPlace(inquiry, { write: (text) => written.push(text) }, 80)();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(written).toEqual([]);
  });

  it("a server that does not let us look costs nothing but the details", async () => {
    const written: string[] = [];
    const query = () => Promise.reject(new Error("not allowed"));
    const stop = showPlace({ ...inquiry, query }, { write: (text) => written.push(text) }, 80);
    await vi.advanceTimersByTimeAsync(300);
    expect(written).toEqual(["\r\u001b[Kwaiting for deploy"]);
    stop();
  });
});
