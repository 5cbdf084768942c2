import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, it, vi } from "vitest";
import type { HttpSessionObject } from "../../src/cloudflare/http-session/http-session-object.ts";
import { SessionLifecycle } from "../../src/cloudflare/http-session/session-lifecycle.ts";
import { expectLog } from "../support/expected-logs.ts";
import { fresh } from "./support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const FAULTS = {
  async "HttpSessionObject.alarm"() {
    vi.spyOn(SessionLifecycle.prototype, "wake").mockRejectedValue(new Error("nobody hears of it"));
    await runInDurableObject(env.HTTP_SESSION.getByName(fresh("session")), (object) =>
      (object as HttpSessionObject).alarm().catch(() => {}),
    );
  },
  async waitUntil() {
    await runInDurableObject(env.KEY.getByName(fresh("key")), (_, state) =>
      state.waitUntil(Promise.reject(new Error("nobody hears of it"))),
    );
  },
};

describe.each(Object.entries(FAULTS))("an error that escapes %s", (place, happen) => {
  // First, because a line that one test expects is expected in the rest of its file.
  it.fails("fails a test that does not expect it", happen);

  it("can be expected", async () => {
    expectLog("uncaught", { in: place, error: "Error: nobody hears of it" });
    await happen();
  });
});
