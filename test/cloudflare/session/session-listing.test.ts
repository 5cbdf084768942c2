/** A session's entry in the directory, while the directory is out of reach. Without a cap, no client waits for it. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { allDirectories } from "../../../src/cloudflare/calls/directories.ts";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { Client, never, until } from "../support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

async function listedConnections(): Promise<number> {
  const censuses = await Promise.all(allDirectories(env).map((directory) => directory.census()));
  return censuses.reduce((sum, { sessions }) => sum + sessions.ws, 0);
}

/** The directory fails so many times to list a session. */
function failing(times: number) {
  const original = DirectoryObject.prototype.openSession;
  let left = times;
  return vi.spyOn(DirectoryObject.prototype, "openSession").mockImplementation(function (this: DirectoryObject, entry) {
    left -= 1;
    if (left < 0) return original.call(this, entry);
    throw new Error("reset because of a deploy");
  });
}

describe("a session that the directory fails to list", () => {
  it("is listed a little later", async () => {
    expectLog("directory_unreachable", { error: "Error: reset because of a deploy" });
    const before = await listedConnections();
    failing(2);
    const client = await Client.open();
    await until(async () => (await listedConnections()) === before + 1);
    client.close();
    await until(async () => (await listedConnections()) === before);
  });

  it("is not listed once it has ended", async () => {
    expectLog("directory_unreachable", { error: "Error: reset because of a deploy" });
    const before = await listedConnections();
    const spy = failing(1);
    const closing = vi.spyOn(DirectoryObject.prototype, "closeSession");
    const client = await Client.open();
    await until(() => spy.mock.calls.length === 1);
    client.close();
    await until(() => closing.mock.calls.length === 1);
    await scheduler.wait(500);
    expect(spy).toHaveBeenCalledOnce();
    expect(await listedConnections()).toBe(before);
  });

  it("can ask for reports", async () => {
    vi.spyOn(DirectoryObject.prototype, "openSession").mockImplementation(() => never());
    const client = await Client.open();
    expect(await client.ask("stats\n_\n_\n")).toMatch(/^ok \{/);
    client.close();
  });
});
