import { describe, expect, it, vi } from "vitest";
import { answerClose, closeSocket } from "../../../src/cloudflare/calls/closing.ts";

const socketThat = (close: () => unknown) => ({ close: vi.fn(close as () => void) });

describe("closing a socket", () => {
  it.each([
    [
      "at once",
      () => {
        throw new TypeError("closed already");
      },
    ],
    ["later", () => Promise.reject(new Error("the peer has gone"))],
  ])("is no failure if it fails %s: nobody is left to tell", async (_, close) => {
    const socket = socketThat(close);
    closeSocket(socket, 1000);
    // A rejection that nobody handles would fail the run.
    await scheduler.wait(20);
    expect(socket.close).toHaveBeenCalledOnce();
  });

  it("sends no code that a wire cannot carry", () => {
    const socket = socketThat(() => {});
    for (const code of [1005, 1015, 4412]) closeSocket(socket, code);
    expect(socket.close.mock.calls).toEqual([[1000], [1000], [4412]]);
  });

  it("answers a close, and not a connection that broke without one", () => {
    const socket = socketThat(() => {});
    for (const code of [1000, 1005, 1006]) answerClose(socket as unknown as WebSocket, code);
    expect(socket.close.mock.calls).toEqual([[1000], [1000]]);
  });
});
