import { describe, expect, it } from "vitest";
import { ACKNOWLEDGE_EVERY, ReceiveWindow, SendWindow, WINDOW_BYTES } from "../../src/core/protocols/carrier/window.ts";

const acknowledgement = (bytes: number) => Uint8Array.of(bytes >>> 24, bytes >>> 16, bytes >>> 8, bytes);

describe("the sending side", () => {
  function sender() {
    const clock = { now: 1_000_000 };
    return { clock, window: new SendWindow(() => clock.now) };
  }

  it("is open until a window is outstanding, not a byte longer", () => {
    const { window } = sender();
    window.sent(WINDOW_BYTES - 1);
    expect(window.isOpen).toBe(true);
    window.sent(1);
    expect(window.isOpen).toBe(false);
  });

  it("opens by what is acknowledged, and never goes below nothing", () => {
    const { window } = sender();
    window.sent(WINDOW_BYTES);
    window.acknowledge(acknowledgement(ACKNOWLEDGE_EVERY));
    expect(window.outstanding).toBe(WINDOW_BYTES - ACKNOWLEDGE_EVERY);
    window.acknowledge(acknowledgement(0xffff_ffff));
    expect(window.outstanding).toBe(0);
  });

  it("reads an acknowledgement that is part of a larger buffer", () => {
    const { window } = sender();
    window.sent(1_000);
    window.acknowledge(Uint8Array.of(9, 9, 0, 0, 1, 0, 9).subarray(2, 6));
    expect(window.outstanding).toBe(1_000 - 256);
  });

  it("is forgiven after five quiet seconds, not before, and every sending starts them anew", () => {
    const { clock, window } = sender();
    window.sent(WINDOW_BYTES);
    clock.now += 4_000;
    window.sent(1);
    expect(window.msUntilForgiven()).toBe(5_000);
    clock.now += 4_999;
    expect(window.isOpen).toBe(false);
    expect(window.msUntilForgiven()).toBe(1);
    clock.now += 1;
    expect(window.isOpen).toBe(true);
    expect(window.outstanding).toBe(0);
    window.sent(7);
    expect(window.outstanding).toBe(7);
  });
});

describe("the receiving side", () => {
  it("acknowledges in steps, everything since the step before, big-endian", () => {
    const window = new ReceiveWindow();
    expect(window.consumed(ACKNOWLEDGE_EVERY - 1)).toBeUndefined();
    expect(window.consumed(3)).toEqual(acknowledgement(ACKNOWLEDGE_EVERY + 2));
    expect(window.consumed(0)).toBeUndefined();
    expect(window.consumed(ACKNOWLEDGE_EVERY)).toEqual(acknowledgement(ACKNOWLEDGE_EVERY));
  });

  it("keeps a sender open for ever as long as it consumes", () => {
    const sending = new SendWindow(() => 0);
    const receiving = new ReceiveWindow();
    let sent = 0;
    for (let n = 0; n < 5_000; n += 1) {
      expect(sending.isOpen).toBe(true);
      const bytes = 1 + ((n * 7_919) % 4_096);
      sending.sent(bytes);
      sent += bytes;
      const frame = receiving.consumed(bytes);
      if (frame) sending.acknowledge(frame);
    }
    expect(sent).toBeGreaterThan(10 * WINDOW_BYTES);
    expect(sending.outstanding).toBeLessThan(ACKNOWLEDGE_EVERY);
  });
});
