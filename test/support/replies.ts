/** What a test expects of one reply of the HTTP API. */
import { expect } from "vitest";
import type { HttpExchange, HttpReply } from "./http-client.ts";

/** The reply has this status and, byte for byte, this value as body. Of an error without a detail, any detail will do. */
export function expectJson(reply: HttpReply, status: number, value: object): void {
  const isAnyDetail = "error" in value && !("detail" in value) && value.error !== "origin_forbidden";
  if (isAnyDetail) {
    expect([reply.status, JSON.parse(reply.body)]).toEqual([status, { ...value, detail: expect.stringMatching(/\S/) }]);
    return;
  }
  expect([reply.status, reply.body]).toEqual([status, `${JSON.stringify(value)}\n`]);
}

export function expectNoContent(reply: HttpReply): void {
  expect([reply.status, reply.body]).toEqual([204, ""]);
}

/** The reply is this error; its detail is about what is named. */
export function expectError(reply: HttpReply, status: number, error: string, about?: string | RegExp): void {
  expect([reply.status, JSON.parse(reply.body)]).toEqual([status, expect.objectContaining({ error })]);
  if (about !== undefined) expect((JSON.parse(reply.body) as { detail?: string }).detail).toMatch(about);
}

/** The token of a grant with this lease; any other reply fails. */
export function grantIn(reply: HttpReply, status: "ok" | "acquired" = "ok", leaseSeconds?: number): string {
  expect(reply.status, reply.body).toBe(200);
  const [, token = ""] = /"token":"([0-9a-f]{32})"/.exec(reply.body) ?? [];
  const lease = leaseSeconds ?? (JSON.parse(reply.body) as { lease_ttl_s: number }).lease_ttl_s;
  expect(reply.body).toBe(`${JSON.stringify({ status, token, lease_ttl_s: lease })}\n`);
  return token;
}

/** The reply came at this time after its request, in seconds. */
export function expectAfter({ ms, livedMs }: HttpReply, fromSeconds: number, toSeconds: number): void {
  expect(ms / 1000).toBeGreaterThanOrEqual(fromSeconds);
  expect(livedMs / 1000).toBeLessThanOrEqual(toSeconds);
}

/** Nothing has been answered so far. */
export async function expectWaiting({ reply }: HttpExchange): Promise<void> {
  const soon = new Promise((resolve) => setTimeout(resolve, 100, "still waiting"));
  expect(await Promise.race([reply, soon])).toBe("still waiting");
}
