import { SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import type { ScopeOperation } from "../../src/core/auth/scope.ts";
import { issueTicket, MAX_TICKET_LENGTH, readTicket } from "../../src/core/auth/tickets.ts";

const CLOSED = { authToken: "secret", ticketSecret: undefined };
const SIGNED = { authToken: "secret", ticketSecret: "0123456789abcdef0123456789abcdef" };
const OPEN = { authToken: undefined, ticketSecret: undefined };
const NOW = 1_800_000_000_000;
const SCOPE = { keys: ["deploy", "team-a/*"], operations: ["lock", "stats"] as ScopeOperation[] };

interface Forgery {
  readonly header?: Record<string, unknown>;
  readonly claims?: Record<string, unknown>;
  readonly key?: string;
}

const GOOD_CLAIMS = {
  iss: "holdfast",
  aud: "holdfast",
  iat: NOW / 1000,
  exp: NOW / 1000 + 60,
  keys: ["k"],
  ops: ["lock"],
};

/** A ticket that is right but for what the story changes, signed with the service's own secret. */
function signed({ header = {}, claims = {}, key = SIGNED.ticketSecret }: Forgery): Promise<string> {
  return new SignJWT({ ...GOOD_CLAIMS, ...claims })
    .setProtectedHeader({ alg: "HS256", typ: "JWT", ...header })
    .sign(new TextEncoder().encode(key));
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");

describe.each([
  ["signed with AUTH_TOKEN", CLOSED],
  ["signed with TICKET_SECRET", SIGNED],
  ["of an open service", OPEN],
])("a ticket %s", (_, secrets) => {
  test("opens what it was issued for", async () => {
    const ticket = await issueTicket(secrets, SCOPE, 60, NOW);
    expect(await readTicket(secrets, ticket, NOW)).toEqual({ ...SCOPE, expiresAt: NOW + 60_000 });
  });

  test("ends with its last second", async () => {
    const ticket = await issueTicket(secrets, SCOPE, 60, NOW);
    expect(await readTicket(secrets, ticket, NOW + 59_999)).toBeDefined();
    expect(await readTicket(secrets, ticket, NOW + 60_000)).toBeUndefined();
    expect(await readTicket(secrets, ticket, NOW + 1e12)).toBeUndefined();
  });

  test("lives as long as promised when it is issued in the middle of a second", async () => {
    const ticket = await issueTicket(secrets, SCOPE, 1, NOW + 999);
    expect(await readTicket(secrets, ticket, NOW + 1998)).toBeDefined();
    expect(await readTicket(secrets, ticket, NOW + 2000)).toBeUndefined();
  });

  test("is refused when a single byte of it changes", async () => {
    const ticket = await issueTicket(secrets, SCOPE, 60, NOW);
    // The last character carries bits that no byte is made of.
    for (let at = 0; at < ticket.length - 1; at++) {
      const changed = ticket.slice(0, at) + (ticket[at] === "A" ? "B" : "A") + ticket.slice(at + 1);
      expect(await readTicket(secrets, changed, NOW), `byte ${at}`).toBeUndefined();
    }
  });

  test("is refused with a wider scope put in", async () => {
    const ticket = await issueTicket(secrets, SCOPE, 60, NOW);
    const [header, payload = "", signature] = ticket.split(".");
    const claims = JSON.parse(Buffer.from(payload, "base64url").toString());
    const forged = `${header}.${encoded({ ...claims, keys: ["*"] })}.${signature}`;
    expect(await readTicket(secrets, forged, NOW)).toBeUndefined();
  });
});

describe("the key of tickets", () => {
  test("is not the same for another AUTH_TOKEN: rotating it ends all tickets", async () => {
    const ticket = await issueTicket(CLOSED, SCOPE, 60, NOW);
    expect(await readTicket({ ...CLOSED, authToken: "secret2" }, ticket, NOW)).toBeUndefined();
    expect(await readTicket(CLOSED, ticket, NOW)).toBeDefined();
  });

  test("is TICKET_SECRET once that is set: rotating AUTH_TOKEN then ends none", async () => {
    const ticket = await issueTicket(SIGNED, SCOPE, 60, NOW);
    expect(await readTicket({ ...SIGNED, authToken: "secret2" }, ticket, NOW)).toBeDefined();
    expect(await readTicket({ ...SIGNED, ticketSecret: "x".repeat(32) }, ticket, NOW)).toBeUndefined();
    expect(await readTicket(CLOSED, ticket, NOW)).toBeUndefined();
  });

  test("is AUTH_TOKEN only as long as TICKET_SECRET is not set", async () => {
    const ticket = await signed({ key: CLOSED.authToken });
    expect(await readTicket(CLOSED, ticket, NOW)).toBeDefined();
    expect(await readTicket(SIGNED, ticket, NOW)).toBeUndefined();
  });

  test("is never a guess on an open service, also when two tickets are the first ones", async () => {
    const first = await issueTicket(OPEN, SCOPE, 60, NOW);
    // Another configuration in between makes the service forget its key, as a new isolate would.
    await issueTicket(CLOSED, SCOPE, 60, NOW);
    expect(await readTicket(OPEN, first, NOW)).toBeUndefined();
    await issueTicket(CLOSED, SCOPE, 60, NOW);
    const both = await Promise.all([issueTicket(OPEN, SCOPE, 60, NOW), issueTicket(OPEN, SCOPE, 60, NOW)]);
    for (const ticket of both) expect(await readTicket(OPEN, ticket, NOW)).toBeDefined();
  });
});

describe("a ticket signed by somebody who knows TICKET_SECRET", () => {
  test("is accepted when it looks like ours, whatever else it claims", async () => {
    const ticket = await signed({ claims: { sub: "me", extra: {} } });
    expect(await readTicket(SIGNED, ticket, NOW)).toEqual({
      keys: ["k"],
      operations: ["lock"],
      expiresAt: NOW + 60_000,
    });
  });

  test("needs no claim but its end: what it does not restrict is open", async () => {
    const ticket = await new SignJWT({ exp: NOW / 1000 + 60 })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode(SIGNED.ticketSecret));
    expect(await readTicket(SIGNED, ticket, NOW)).toEqual({
      keys: ["*"],
      operations: ["lock", "semaphore", "stats"],
      expiresAt: NOW + 60_000,
    });
  });

  test.each<[string, Forgery]>([
    ["another key", { key: "f".repeat(32) }],
    ["alg HS512", { header: { alg: "HS512" }, key: "x".repeat(64) }],
    ["alg HS384 with the right secret", { header: { alg: "HS384" } }],
    ["another issuer", { claims: { iss: "elsewhere" } }],
    ["another audience", { claims: { aud: "elsewhere" } }],
    ["no exp", { claims: { exp: undefined } }],
    ["exp as text", { claims: { exp: "9999999999" } }],
    ["exp with a fraction", { claims: { exp: NOW / 1000 + 1.5 } }],
    ["not valid yet", { claims: { nbf: NOW / 1000 + 1 } }],
    ["an empty list of keys", { claims: { keys: [] } }],
    ["keys as text", { claims: { keys: "*" } }],
    ["a key that is no text", { claims: { keys: [1] } }],
    ["an empty key", { claims: { keys: ["k", ""] } }],
    ["a key that is too long", { claims: { keys: ["k".repeat(258)] } }],
    ["65 keys", { claims: { keys: Array.from({ length: 65 }, (_, index) => `k${index}`) } }],
    ["an empty list of operations", { claims: { ops: [] } }],
    ["an unknown operation", { claims: { ops: ["lock", "admin"] } }],
    ["an operation twice", { claims: { ops: ["lock", "lock"] } }],
    ["operations as text", { claims: { ops: "lock" } }],
    ["more than 32 KiB", { claims: { padding: "x".repeat(32_768) } }],
  ])("is refused with %s", async (_, forgery) => {
    expect(await readTicket(SIGNED, await signed(forgery), NOW)).toBeUndefined();
  });
});

describe("what is no ticket", () => {
  test("is refused when it claims to need no signature", async () => {
    for (const alg of ["none", "None", "NONE", ""]) {
      for (const signature of ["", "AA"]) {
        const forged = `${encoded({ alg, typ: "JWT" })}.${encoded(GOOD_CLAIMS)}.${signature}`;
        expect(await readTicket(SIGNED, forged, NOW)).toBeUndefined();
      }
    }
  });

  test.each([
    "",
    ".",
    "..",
    "a.b.c",
    "a.b",
    "a.b.c.d",
    "secret",
    "é.é.é",
    `${encoded({ alg: "HS256", crit: ["b64"], b64: false })}.e30.AA`,
    `${encoded([])}.e30.AA`,
    `${encoded("x")}.e30.AA`,
    `${encoded({ alg: "HS256", jwk: {}, kid: "x" })}.e30.AA`,
    " \n",
  ])("is refused without a fuss: %j", async (text) => {
    expect(await readTicket(SIGNED, text, NOW)).toBeUndefined();
  });

  test("is refused before any work when it is huge", async () => {
    const before = process.cpuUsage();
    expect(await readTicket(SIGNED, `${"a".repeat(20_000_000)}.b.c`, NOW)).toBeUndefined();
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(100);
  });
});

describe("issuing", () => {
  test("64 of the longest keys fit", async () => {
    const keys = Array.from({ length: 64 }, (_, index) => `${String(index).padStart(3, "0")}${"k".repeat(253)}*`);
    const ticket = await issueTicket(CLOSED, { keys, operations: ["lock"] }, 60, NOW);
    expect((await readTicket(CLOSED, ticket, NOW))?.keys).toEqual(keys);
  });

  test("one that is too long is not believed", async () => {
    const keys = Array.from({ length: 64 }, () => "\u0001".repeat(256));
    const ticket = await issueTicket(CLOSED, { keys, operations: ["lock"] }, 60, NOW);
    expect(ticket.length).toBeGreaterThan(MAX_TICKET_LENGTH);
    expect(await readTicket(CLOSED, ticket, NOW)).toBeUndefined();
  });

  test("puts no secret into the ticket", async () => {
    const ticket = await issueTicket(CLOSED, SCOPE, 60, NOW);
    const readable = ticket.split(".").map((part) => Buffer.from(part, "base64url").toString());
    expect(readable[0]).toBe('{"alg":"HS256","typ":"JWT"}');
    expect(Object.keys(JSON.parse(readable[1] ?? "")).sort()).toEqual(["aud", "exp", "iat", "iss", "keys", "ops"]);
  });
});
