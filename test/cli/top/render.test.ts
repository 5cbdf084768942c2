import { emitKeypressEvents } from "node:readline";
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { widthOf } from "../../../src/cli/output/printable.ts";
import type { KeyInUse } from "../../../src/cli/service/keys.ts";
import { clampOffset, duration, renderScreen, renderSnapshot, type View } from "../../../src/cli/top/render.ts";
import { actionOf, drawn } from "../../../src/cli/top/terminal.ts";

const holder = (label: string, left: number) => ({
  owner_conn_id: 7,
  label,
  fence: "18e867ca647b4e80",
  since: "2026-11-17T02:00:00.000Z",
  held_s: 125,
  lease_s: 30,
  lease_expires_in_s: left,
});
const waiter = (position: number, label?: string) => ({
  position,
  owner_conn_id: 40 + position,
  ...(label === undefined ? {} : { label }),
  since: "2026-11-17T02:00:00.000Z",
  waited_s: 4,
});
const key = (name: string, queue: KeyInUse["queue"] = [], waiters = queue.length): KeyInUse => ({
  key: name,
  limit: 1,
  holders: 1,
  waiters,
  held_by: [holder("ada", 15.5)],
  queue,
});
const viewOf = (keys: KeyInUse[], more: Partial<View> = {}): View => ({
  url: "http://127.0.0.1:6389",
  prefix: "",
  page: { connections: 3, keys, idle: 2, unreachable: 0, next: undefined },
  ageSeconds: 0,
  problem: undefined,
  ...more,
});
const many = Array.from({ length: 50 }, (_, index) => key(`key-${index}`));
const text = (view: View, columns: number, rows: number, offset = 0) =>
  renderScreen(view, { columns, rows, offset }).map((line) => line.text.trimEnd());

describe("the screen of top", () => {
  it("shows holders with the countdown of their lease, and the queue in order", () => {
    expect(text(viewOf([key("deploy", [waiter(1, "bob"), waiter(2)], 5)]), 80, 9)).toEqual([
      "holdfast http://127.0.0.1:6389",
      "3 connections, 1 key, 1 held, 5 waiting, 2 idle",
      "deploy  1/1 held, 5 waiting",
      "  ●   15s [=====     ] ada, held 2m05s",
      "    1. bob, waiting 4s",
      "    2. session 42, waiting 4s",
      "  and 3 more",
      "",
      "q quits, arrows scroll",
    ]);
  });

  it("counts leases down between two answers, and never below zero", () => {
    const lease = (ageSeconds: number) => text(viewOf([key("k")], { ageSeconds }), 80, 6)[3];
    expect(lease(10)).toBe("  ●    5s [==        ] ada, held 2m15s");
    expect(lease(99)).toBe("  ●    0s [          ] ada, held 3m44s");
  });

  it.each([
    [80, 24],
    [40, 10],
    [20, 5],
    [10, 3],
    [5, 2],
    [1, 1],
  ])("fills %i columns and %i rows exactly, whatever there is to show", (columns, rows) => {
    const wide = key("部署/生产环境-🚀-with-a-long-name", [waiter(1, "日本語のラベル")]);
    for (const view of [
      viewOf([wide, ...many]),
      viewOf([]),
      viewOf(many, { problem: "no server at http://127.0.0.1:6389" }),
    ]) {
      const lines = renderScreen(view, { columns, rows, offset: 3 });
      expect(lines.map((line) => widthOf(line.text))).toEqual(Array.from({ length: rows }, () => columns));
    }
  });

  it("keeps names on a narrow terminal, and leaves out what would push them away", () => {
    expect(text(viewOf([key("deploy", [waiter(1, "bob")])]), 24, 7)).toEqual([
      "holdfast http://127.0.0…",
      "3 connections, 1 key, 1…",
      "deploy",
      "  ●   15s ada",
      "    1. bob",
      "",
      "q quits",
    ]);
  });

  it("scrolls no further than to its last line", () => {
    const view = viewOf(many);
    expect(text(view, 80, 10, 0)[2]).toMatch(/^key-0 /);
    expect(text(view, 80, 10, 2)[2]).toMatch(/^key-1 /);
    expect(text(view, 80, 10, 1_000).at(-2)).toContain("ada");
    expect(text(view, 80, 10, 1_000)[7]).toMatch(/^key-49 /);
    expect([
      clampOffset(-5, 100, { rows: 10 }),
      clampOffset(999, 100, { rows: 10 }),
      clampOffset(9, 4, { rows: 10 }),
    ]).toEqual([0, 93, 0]);
    expect(text(view, 80, 10, 0).at(-1)).toBe("q quits, arrows scroll, 93 lines below");
  });

  it("says why there is no newer answer, and that there are more keys", () => {
    expect(
      renderScreen(viewOf(many, { problem: "no server" }), { columns: 80, rows: 10, offset: 0 }).at(-1),
    ).toMatchObject({
      style: "warning",
      text: expect.stringMatching(/^no server +$/),
    });
    const page = { ...viewOf([key("a")]).page, next: "a" };
    expect(text(viewOf([], { page }), 80, 10).at(-1)).toBe("q quits, arrows scroll, more keys: give a PREFIX");
  });

  it("lets no name of a stranger reach the terminal unescaped", () => {
    const evil = key("\u001b]0;owned\u0007", [waiter(1, "\u001b[2J\u202ebob")]);
    const output = drawn(renderScreen(viewOf([evil]), { columns: 80, rows: 10, offset: 0 }));
    for (const harm of ["\u001b]", "\u0007", "\u001b[2J", "\u202e"]) expect(output).not.toContain(harm);
    expect(output).toContain("\\u{1b}]0;owned\\u{7}");
  });

  it("as a snapshot is plain text, whole lines and no frame", () => {
    const lines = renderSnapshot(viewOf(many));
    expect(lines).toHaveLength(2 + 2 * many.length);
    for (const frame of ["\u001b", "q quits"]) expect(lines.join("\n")).not.toContain(frame);
    expect(renderSnapshot(viewOf([]))).toContain("nothing is held");
  });
});

describe("the terminal part of top", () => {
  it("places every line, so that nothing scrolls", () => {
    const lines = renderScreen(viewOf([]), { columns: 10, rows: 3, offset: 0 });
    expect([...drawn(lines).matchAll(/\[([0-9]+);1H/g)].map(([, row]) => row)).toEqual(["1", "2", "3"]);
    expect(drawn(lines)).not.toContain("\n");
  });

  it("knows its keys, several at once, and ignores the others", () => {
    const input = new PassThrough();
    const keys: unknown[] = [];
    emitKeypressEvents(input);
    input.on("keypress", (_, key) => keys.push(actionOf(key)));
    input.emit("data", "jk\u001b[A\u001b[B\u001bOB\u001b[5~ xyz\u001b[200~qQ\u0003");
    expect(keys.filter((key) => key !== undefined)).toEqual([
      "down",
      "up",
      "up",
      "down",
      "down",
      "page up",
      "page down",
      "quit",
      "quit",
      "quit",
    ]);
  });
});

describe("durations", () => {
  it("are short", () => {
    expect([0.9, 59, 60, 3_599, 3_600, 86_399, 90_000].map(duration)).toEqual([
      "0s",
      "59s",
      "1m00s",
      "59m59s",
      "1h00m",
      "23h59m",
      "1d01h",
    ]);
  });
});
