import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { directoryOfSession } from "../../../src/cloudflare/calls/directories.ts";
import { SessionObject } from "../../../src/cloudflare/session/session-object.ts";
import { httpSessionName, newSessionId } from "../../../src/core/session-names.ts";
import { stopClock } from "../clock.ts";
import { askKey, command, grantedToken, keyStub, service, WAIT } from "../support.ts";

const ADDRESS = "192.0.2.1";

beforeEach(() => {
  stopClock();
  vi.spyOn(SessionObject.prototype, "isLive").mockResolvedValue({ isLive: true });
});

afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await reset();
});

const NONE = {
  keysHeld: 0,
  locksHeld: 0,
  lockWaiters: 0,
  semaphoreHolders: 0,
  semaphoreWaiters: 0,
  keysUnreachable: 0,
};

describe("the gauges", () => {
  it("of an empty service are zero", async () => {
    expect(await service().directory.gauges({ mayEstimate: true })).toEqual({
      sessions: { tcp: 0, ws: 0, http: 0 },
      keys: 0,
      listingBacklog: 0,
      keysSampled: 0,
      isEstimate: false,
      byState: NONE,
    });
  });

  it("tell locks from semaphores and count slots, waiters, keys and sessions", async () => {
    for (const key of ["a", "b"]) await askKey(keyStub(key), { type: "acquire", command: command() });
    for (let n = 0; n < 3; n++) await askKey(keyStub("a"), { type: "acquire", command: command(WAIT) });
    for (let n = 0; n < 4; n++)
      await askKey(keyStub("pool"), { type: "acquire", command: command({ limit: 2, ...WAIT }) });
    await askKey(keyStub("idle"), {
      type: "release",
      token: grantedToken(await askKey(keyStub("idle"), { type: "acquire", command: command() })),
      session: "",
    });
    for (const [session, transport] of [
      [newSessionId(), "ws"] as const,
      [httpSessionName(newSessionId()), "http"] as const,
    ])
      await directoryOfSession(env, { session, address: ADDRESS }).openSession({
        session,
        address: ADDRESS,
        transport,
      });
    expect(await service().directory.gauges({ mayEstimate: true })).toEqual({
      sessions: { tcp: 0, ws: 1, http: 1 },
      keys: 4,
      listingBacklog: 0,
      keysSampled: 4,
      isEstimate: false,
      byState: { ...NONE, keysHeld: 3, locksHeld: 2, lockWaiters: 3, semaphoreHolders: 2, semaphoreWaiters: 2 },
    });
  });
});
