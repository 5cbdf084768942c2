import { describe, expect, onTestFinished, test, vi } from "vitest";
import { MAX_BODY_BYTES, readBody } from "../../src/http/request/body.ts";

const BOUNDS = { maxBytes: MAX_BODY_BYTES, deadlineMs: 2000 };
const TOO_LONG = { ok: false, detail: "body must be at most 1048576 bytes" };

function post(body?: BodyInit, headers: Record<string, string> = {}): Request {
  // Node sends streams only when told that the reply may come after the body.
  return new Request("http://holdfast/", {
    method: "POST",
    headers,
    duplex: "half",
    ...(body && { body }),
  } as RequestInit);
}

/** A body that arrives piece by piece, and remembers whether the rest was asked for. */
function pieces(count: number, size: number) {
  const seen = { pulled: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (seen.pulled === count) return controller.close();
      seen.pulled += 1;
      controller.enqueue(new Uint8Array(size).fill(0x20));
    },
    cancel() {
      seen.isCancelled = true;
    },
  });
  return { stream, seen };
}

test("a request without body has none", async () => {
  expect(await readBody(post(), BOUNDS)).toEqual({ ok: true, bytes: new Uint8Array() });
});

test("a body is read whole, in one piece or in many", async () => {
  const whole = await readBody(post('{"a":1}'), BOUNDS);
  expect(whole.ok && new TextDecoder().decode(whole.bytes)).toBe('{"a":1}');
  const inPieces = await readBody(post(pieces(3, 5).stream), BOUNDS);
  expect(inPieces.ok && new TextDecoder().decode(inPieces.bytes)).toBe(" ".repeat(15));
});

describe("a body of more than 1,048,576 bytes is refused", () => {
  test("to the byte", async () => {
    const most = await readBody(post(" ".repeat(MAX_BODY_BYTES)), BOUNDS);
    expect(most.ok && most.bytes.byteLength).toBe(MAX_BODY_BYTES);
    expect(await readBody(post(" ".repeat(MAX_BODY_BYTES + 1)), BOUNDS)).toEqual(TOO_LONG);
  });

  test("at its end, so that who sends it whole gets to read why", async () => {
    const { stream, seen } = pieces(80, 100_000);
    expect(await readBody(post(stream), BOUNDS)).toEqual(TOO_LONG);
    expect(seen).toEqual({ pulled: 80, isCancelled: false });
  });

  test("unread when it announces more than anybody sends by mistake", async () => {
    const { stream, seen } = pieces(100, 1000);
    const request = post(stream, { "Content-Length": "16777217" });
    expect(await readBody(request, BOUNDS)).toEqual(TOO_LONG);
    expect(seen.isCancelled).toBe(true);
    expect(seen.pulled).toBeLessThan(2);
  });

  test("after 16 MiB when it does not end", async () => {
    const { stream, seen } = pieces(1_000_000, 100_000);
    expect(await readBody(post(stream), BOUNDS)).toEqual(TOO_LONG);
    expect(seen.isCancelled).toBe(true);
    expect(seen.pulled).toBeLessThan(200);
  });
});

test("a body that does not end in time is refused and let go", async () => {
  let isCancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new TextEncoder().encode("{")),
    cancel: () => {
      isCancelled = true;
    },
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  let result: unknown;
  const reading = readBody(post(stream), { ...BOUNDS, deadlineMs: 50 }).then((read) => {
    result = read;
  });
  await vi.advanceTimersByTimeAsync(49);
  expect(result).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  await reading;
  expect(result).toEqual({ ok: false, detail: "body was not complete in time" });
  expect(isCancelled).toBe(true);
});

test("a deadline beyond every timer does not strike at once", async () => {
  const slow = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.enqueue(new TextEncoder().encode("{}"));
      controller.close();
    },
  });
  expect(await readBody(post(slow), { ...BOUNDS, deadlineMs: 9_223_372_036_000 })).toMatchObject({ ok: true });
});

test("a body that breaks off is refused", async () => {
  const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("reset")) });
  expect(await readBody(post(broken), BOUNDS)).toEqual({ ok: false, detail: "body could not be read" });
});
