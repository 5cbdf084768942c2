import { describe, expect, test } from "vitest";
import {
  authenticate,
  authenticateSecret,
  authenticateTicket,
  isAdmin,
  isTrusted,
  mayHaveSession,
  mayUse,
  type Principal,
} from "../../src/core/auth/principal.ts";
import { OPERATIONS, type ScopeOperation } from "../../src/core/auth/scope.ts";
import { issueTicket } from "../../src/core/auth/tickets.ts";

type Secrets = Parameters<typeof authenticate>[0];

const CLOSED: Secrets = { authToken: "secret", adminToken: "root", ticketSecret: undefined };
const WITHOUT_ADMIN = { ...CLOSED, adminToken: undefined };
const OPEN = { ...CLOSED, authToken: undefined };
const WIDE_OPEN = { ...OPEN, adminToken: undefined };

const ticketFor = (operations: ScopeOperation[] = ["lock"], issuedAt = Date.now()) =>
  issueTicket(CLOSED, { keys: ["a", "p/*"], operations }, 60, issuedAt);

describe("an Authorization header", () => {
  test.each<[string, string | undefined, Secrets, Principal["type"] | undefined]>([
    ["closed", "Bearer secret", CLOSED, "token"],
    ["closed", "bearer   secret ", CLOSED, "token"],
    ["closed", " BEARER\tsecret", CLOSED, "token"],
    ["closed", "Bearer root", CLOSED, "admin"],
    ["closed", undefined, CLOSED, undefined],
    ["closed", "", CLOSED, undefined],
    ["closed", "Bearer", CLOSED, undefined],
    ["closed", "Bearer ", CLOSED, undefined],
    ["closed", "Bearer wrong", CLOSED, undefined],
    ["closed", "Bearer secre", CLOSED, undefined],
    ["closed", "Bearer secrets", CLOSED, undefined],
    ["closed", "Bearer Secret", CLOSED, undefined],
    ["closed", "Bearer secret secret", CLOSED, undefined],
    ["closed", "Bearersecret", CLOSED, undefined],
    ["closed", "secret", CLOSED, undefined],
    ["closed", "Basic secret", CLOSED, undefined],
    ["closed", "Bearer undefined", WITHOUT_ADMIN, undefined],
    ["closed", "Bearer root", WITHOUT_ADMIN, undefined],
    ["open", undefined, OPEN, "open"],
    ["open", "Bearer anything", OPEN, "open"],
    ["open", "Basic anything", OPEN, "open"],
    ["open", "Bearer root", OPEN, "admin"],
    ["open", "Bearer root", WIDE_OPEN, "open"],
    ["open", "Bearer", WIDE_OPEN, "open"],
  ])("on a service that is %s: %j", async (_, header, secrets, type) => {
    expect((await authenticate(secrets, header))?.type).toBe(type);
  });

  test.each([
    ["decoded", "Bearer пароль"],
    ["as bytes", `Bearer ${Buffer.from("пароль").toString("latin1")}`],
    // The last byte of this letter is that of a space without a break.
    ["as bytes that look like a blank", `Bearer ${Buffer.from("voilà").toString("latin1")}`],
    ["in Latin-1", "Bearer voilà"],
    ["decoded, like bytes of other text", "Bearer Ã©"],
  ])("may have a token beyond ASCII, %s", async (_, header) => {
    const admitted = await Promise.all(
      ["пароль", "voilà", "Ã©"].map((authToken) => authenticate({ ...CLOSED, authToken }, header)),
    );
    expect(admitted.filter((principal) => principal?.type === "token")).toHaveLength(1);
    expect(await authenticate({ ...CLOSED, adminToken: "пароль" }, header)).toEqual(admitted[0] && { type: "admin" });
    expect(await authenticate(CLOSED, header)).toBeUndefined();
  });

  test("with one token for both makes everybody an administrator", async () => {
    expect(await authenticate({ ...CLOSED, adminToken: "secret" }, "Bearer secret")).toEqual({ type: "admin" });
  });

  test("may carry a ticket", async () => {
    const principal = await authenticate(CLOSED, `Bearer ${await ticketFor()}`);
    expect(principal).toMatchObject({ type: "ticket", scope: { keys: ["a", "p/*"], operations: ["lock"] } });
  });

  test("with a ticket that expired or that another service issued is refused", async () => {
    expect(await authenticate(CLOSED, `Bearer ${await ticketFor(["lock"], Date.now() - 61_000)}`)).toBeUndefined();
    expect(await authenticate({ ...CLOSED, authToken: "other" }, `Bearer ${await ticketFor()}`)).toBeUndefined();
  });

  test("of any length costs little", async () => {
    const before = process.cpuUsage();
    for (const filler of [" ", "\t", "a", "a "]) {
      expect(await authenticate(CLOSED, `Bearer ${filler.repeat(200_000)}x`)).toBeUndefined();
    }
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(500);
  });
});

describe("a bare secret", () => {
  test("is a token, as text or as bytes, or a ticket", async () => {
    const bytes = (text: string) => new TextEncoder().encode(text);
    expect(await authenticateSecret(CLOSED, "secret")).toEqual({ type: "token" });
    expect(await authenticateSecret(CLOSED, bytes("secret"))).toEqual({ type: "token" });
    expect(await authenticateSecret(CLOSED, bytes("root"))).toEqual({ type: "admin" });
    expect(await authenticateSecret(CLOSED, bytes(await ticketFor()))).toMatchObject({ type: "ticket" });
    expect(await authenticateSecret(CLOSED, "")).toBeUndefined();
    expect(await authenticateSecret(CLOSED, "Bearer secret")).toBeUndefined();
    expect(await authenticateSecret(CLOSED, new Uint8Array([0xff, 0xfe]))).toBeUndefined();
  });

  test("in an address is a ticket, never a token", async () => {
    expect(await authenticateTicket(CLOSED, await ticketFor())).toMatchObject({ type: "ticket" });
    expect(await authenticateTicket(CLOSED, "secret")).toBeUndefined();
    expect(await authenticateTicket(CLOSED, "root")).toBeUndefined();
    expect(await authenticateTicket(OPEN, "whatever")).toEqual({ type: "open" });
    expect(await authenticateTicket(OPEN, "root")).toEqual({ type: "open" });
  });
});

describe("rights", () => {
  const ticket = (...operations: ScopeOperation[]): Principal => ({
    type: "ticket",
    scope: { keys: ["a", "p/*"], operations, expiresAt: Number.MAX_SAFE_INTEGER },
  });

  test.each<Principal>([{ type: "open" }, { type: "token" }, { type: "admin" }])(
    "of $type are everything but administration",
    (principal) => {
      for (const operation of OPERATIONS) {
        expect(mayUse(principal, operation)).toBe(true);
        expect(mayUse(principal, operation, "any key")).toBe(true);
      }
      expect(mayHaveSession(principal)).toBe(true);
      expect(isTrusted(principal)).toBe(true);
      expect(isAdmin(principal)).toBe(principal.type === "admin");
    },
  );

  test("of a ticket are its operations on its keys", () => {
    const principal = ticket("lock");
    expect(mayUse(principal, "lock")).toBe(true);
    expect(mayUse(principal, "lock", "a")).toBe(true);
    expect(mayUse(principal, "lock", "p/1")).toBe(true);
    expect(mayUse(principal, "lock", "b")).toBe(false);
    expect(mayUse(principal, "lock", "")).toBe(false);
    expect(mayUse(principal, "semaphore", "a")).toBe(false);
    expect(mayUse(principal, "stats")).toBe(false);
  });

  test("of a ticket include a session when there is something to lock", () => {
    expect(mayHaveSession(ticket("lock"))).toBe(true);
    expect(mayHaveSession(ticket("semaphore", "stats"))).toBe(true);
    expect(mayHaveSession(ticket("stats"))).toBe(false);
  });

  test("of a ticket never include metrics, tickets and administration", () => {
    const principal = ticket(...OPERATIONS);
    expect(isTrusted(principal)).toBe(false);
    expect(isAdmin(principal)).toBe(false);
  });
});
