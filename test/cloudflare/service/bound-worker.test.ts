import { exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { boundWorkerOf } from "../../../src/cloudflare/transports/bound-worker.ts";
import { callsAbout } from "../spies.ts";
import { Client, fresh, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

describe("a Worker with a binding, which has no address", () => {
  const request = (init: RequestInit = {}, query = "") => new Request(`http://locks/v1/ws${query}`, init);

  it("counts for its label", () => {
    expect(boundWorkerOf(request({ headers: { "X-Holdfast-Label": "billing" } }))).toBe("worker billing");
    expect(boundWorkerOf(request({}, "?label=billing"))).toBe("worker billing");
    expect(boundWorkerOf(request())).toBeUndefined();
  });

  it("is not played by a client of the internet, whose label gets it out of no limit", () => {
    const headers = { "X-Holdfast-Label": "billing" };
    expect(boundWorkerOf(request({ headers, cf: { colo: "FRA" } as never }))).toBeUndefined();
  });

  it("is counted under its label, and others under theirs", async () => {
    const open = vi.spyOn(DirectoryObject.prototype, "openSession");
    const [one, other] = [fresh("one"), fresh("other")];
    for (const label of [one, other]) {
      const client = await Client.on(
        exports.default.fetch(`http://locks/v1/ws?label=${label}`, { headers: { Upgrade: "websocket" } }),
      );
      await until(() => JSON.stringify(callsAbout(open, label)).includes(`worker ${label}`));
      client.close();
    }
  });
});
