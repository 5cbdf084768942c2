import { Hono } from "hono";
import { expect, test } from "vitest";
import { ERRORS, type ErrorCode, echoed, fail, json } from "../../src/http/reply/errors.ts";

const CODES = Object.keys(ERRORS) as ErrorCode[];

async function answer(code: ErrorCode, detail?: string): Promise<{ reply: Response; body: string }> {
  const app = new Hono().get("/", (context) => fail(context, code, detail));
  const reply = await app.request("/");
  return { reply, body: await reply.clone().text() };
}

test("replies are one compact line of JSON that nobody caches or guesses at", async () => {
  const app = new Hono().get("/", (context) => json(context, { status: "ok" }));
  for (const reply of [(await answer("session_gone")).reply, await app.request("/")]) {
    const body = await reply.text();
    expect(body).toBe(`${JSON.stringify(JSON.parse(body))}\n`);
    expect(reply.headers.get("Content-Type")).toBe("application/json");
    expect(reply.headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(reply.headers.get("Cache-Control")).toBe("no-store");
  }
});

test("every error has a detail, but the one for pages of foreign origins; a handler may say it more precisely", async () => {
  const without = CODES.filter((code) => ERRORS[code].detail === undefined);
  expect(without).toEqual(["origin_forbidden"]);
  for (const code of CODES) {
    const bare = JSON.parse((await answer(code)).body);
    const told = JSON.parse((await answer(code, "because")).body);
    expect(bare, code).toEqual(without.includes(code) ? { error: code } : { error: code, detail: ERRORS[code].detail });
    expect(told, code).toEqual(without.includes(code) ? { error: code } : { error: code, detail: "because" });
  }
});

test("a detail repeats at most 64 characters of what was sent, on one line", () => {
  expect(echoed("/nope")).toBe('"/nope"');
  expect(echoed("a\nb")).toBe('"a\\nb"');
  expect(echoed("x".repeat(64))).toBe(`"${"x".repeat(64)}"`);
  expect(echoed("x".repeat(65))).toBe(`"${"x".repeat(64)}"…`);
});

test("codes bring their headers", async () => {
  expect((await answer("unauthorized")).reply.headers.get("WWW-Authenticate")).toBe("Bearer");
  expect((await answer("upgrade_required")).reply.headers.get("Upgrade")).toBe("websocket");
  expect((await answer("unavailable")).reply.headers.get("Retry-After")).toBe("1");
  expect((await answer("draining")).reply.headers.get("Retry-After")).toBeNull();
});
