import { Hono } from "hono";
import { expect, test } from "vitest";
import { ERRORS, type ErrorCode, fail, json } from "../../src/http/reply/errors.ts";

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

test("a detail stands where it must, never where it must not, and otherwise when there is one", async () => {
  const always = CODES.filter((code) => typeof ERRORS[code].detail === "object");
  const never = CODES.filter((code) => ERRORS[code].detail === "never");
  expect(always.map((code) => ERRORS[code].status)).toEqual([400, 409, 409, 409, 409, 409, 500]);
  expect(never.sort()).toEqual(
    [
      ...["unauthorized", "forbidden", "origin_forbidden", "not_found", "not_held", "method_not_allowed"],
      ...[
        "session_gone",
        "host_forbidden",
        "upgrade_required",
        "precondition_required",
        "rate_limited",
        "draining",
        "max_sessions",
        "max_sessions_per_ip",
      ],
      ...["max_connections", "max_connections_per_ip"],
    ].sort(),
  );
  for (const code of CODES) {
    const bare = JSON.parse((await answer(code)).body);
    const told = JSON.parse((await answer(code, "because")).body);
    expect(bare, code).toEqual(always.includes(code) ? { error: code, detail: expect.any(String) } : { error: code });
    expect(told, code).toEqual(never.includes(code) ? { error: code } : { error: code, detail: "because" });
  }
});

test("codes bring their headers", async () => {
  expect((await answer("unauthorized")).reply.headers.get("WWW-Authenticate")).toBe("Bearer");
  expect((await answer("upgrade_required")).reply.headers.get("Upgrade")).toBe("websocket");
  expect((await answer("unavailable")).reply.headers.get("Retry-After")).toBe("1");
  expect((await answer("draining")).reply.headers.get("Retry-After")).toBeNull();
});
