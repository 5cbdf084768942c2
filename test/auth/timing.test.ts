import { afterEach, beforeEach, expect, type MockInstance, test, vi } from "vitest";
import { authenticate } from "../../src/core/auth/principal.ts";

const CLOSED = { authToken: "secret", adminToken: "root", ticketSecret: undefined };
let digest: MockInstance<SubtleCrypto["digest"]>;

beforeEach(() => {
  digest = vi.spyOn(crypto.subtle, "digest");
});
afterEach(() => {
  digest.mockRestore();
});

/** What was digested, to be compared by digest: the only way in which a secret is ever compared. */
function digested(): string[] {
  return digest.mock.calls.map(([, bytes]) => new TextDecoder().decode(bytes as Uint8Array<ArrayBuffer>)).sort();
}

test.each(["secret", "root", "wrong", "r", "secreT"])("%j is compared with both secrets, by digest", async (shown) => {
  await authenticate(CLOSED, `Bearer ${shown}`);
  expect(digested()).toEqual(["root", "secret", shown, shown].sort());
});
