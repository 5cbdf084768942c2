import { describe, expect, test } from "vitest";
import { AnswerWindow } from "../../src/front/carriage/answer-window.ts";

const MAX_AHEAD = 1_280;
const LINES = 3;

function windowAt(clock: { ms: number }): AnswerWindow {
  return new AnswerWindow(() => clock.ms);
}

describe("a client ahead of its session's answers", () => {
  test("may send on while answers keep up, however much that is", () => {
    const window = windowAt({ ms: 0 });
    for (let round = 0; round < 10 * MAX_AHEAD; round += 1) {
      window.asked(LINES);
      expect(window.isOpen).toBe(true);
      window.answered();
    }
  });

  test("is stopped at the limit, and then until everything is answered", () => {
    const window = windowAt({ ms: 0 });
    for (let request = 0; request < MAX_AHEAD - 1; request += 1) window.asked(LINES);
    expect(window.isOpen).toBe(true);
    window.asked(LINES);
    for (let request = 0; request < MAX_AHEAD - 1; request += 1) {
      window.answered();
      expect(window.isOpen).toBe(false);
    }
    window.answered();
    expect(window.isOpen).toBe(true);
  });

  test("is not stopped for the beginning of a request, which has no answer to come", () => {
    const window = windowAt({ ms: 0 });
    window.asked(MAX_AHEAD * LINES + 2);
    for (let request = 0; request < MAX_AHEAD; request += 1) window.answered();
    expect(window.isOpen).toBe(true);
  });

  test("may go on when the session has been silent for a second: what is left are waits", () => {
    const clock = { ms: 500 };
    const window = windowAt(clock);
    window.asked(MAX_AHEAD * LINES);
    clock.ms = 1_000;
    window.answered();
    expect(window.msUntilForgiven()).toBe(1_000);
    clock.ms = 1_999;
    window.forgive();
    expect(window.isOpen).toBe(false);
    clock.ms = 2_000;
    window.forgive();
    expect(window.isOpen).toBe(true);
  });
});
