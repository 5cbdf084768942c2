/** A request that waits longer than its session may be idle. */
import { describe, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { expectJson, expectNoContent } from "../../support/replies.ts";
import { Api } from "../../support/rest.ts";

const TIMEOUT = { status: "timeout" };

describe.each(HOSTS)("a long poll, on $name", (host) => {
  describe("a poll", () => {
    it("longer than its session may be idle ends like any other [HC127]", async () => {
      await using own = await host.start({ variables: { HTTP_SESSION_IDLE_S: "1" } });
      const [s, s2] = await new Api(own).sessions(2);
      const token = await s.lock("k");
      await using _alive = s.keepAlive();
      const polling = s2.start("/v1/locks/k", { acquire_timeout_s: 6 });
      expectJson(await s.post("/v1/locks/k/renew", { token }), 200, { remaining_s: 33 });
      expectJson(await polling.reply, 200, TIMEOUT);
      expectNoContent(await s2.ping());
    });
  });
});
