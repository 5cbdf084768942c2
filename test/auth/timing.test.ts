import { afterEach, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import { authenticate } from "../../src/core/auth/principal.ts";
import { sameSecret } from "../../src/core/auth/secrets.ts";

const CLOSED = { authToken: "secret", adminToken: "root", ticketSecret: undefined };
let encode: MockInstance<TextEncoder["encode"]>;

beforeEach(() => {
  encode = vi.spyOn(TextEncoder.prototype, "encode");
});
afterEach(() => {
  encode.mockRestore();
});

test.each(["secret", "root", "wrong", "r", "secreT"])("%j is compared with both secrets", async (shown) => {
  await authenticate(CLOSED, `Bearer ${shown}`);
  // A secret is encoded only to be compared.
  expect(encode.mock.calls.flat().sort()).toEqual(["root", "secret", shown, shown].sort());
});

test("a secret equals itself and nothing else, whatever part of it is shown", () => {
  const secret = "sécret";
  expect(sameSecret(secret, secret)).toBe(true);
  expect(sameSecret(new TextEncoder().encode(secret), secret)).toBe(true);
  for (const shown of ["", "s", "sécre", "sécrets", "secret", secret + secret, "\0".repeat(7)])
    expect(sameSecret(shown, secret), JSON.stringify(shown)).toBe(false);
  expect(sameSecret("\0", "")).toBe(false);
});

test("a token is recognised at once; only a ticket takes time", () => {
  expect(authenticate(CLOSED, "Bearer secret")).toEqual({ type: "token" });
  expect(authenticate(CLOSED, "Bearer root")).toEqual({ type: "admin" });
  expect(authenticate(CLOSED, "Bearer wrong")).toBeInstanceOf(Promise);
});
