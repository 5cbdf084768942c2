/** `/ready` needs no token: anybody may ask as often as they like, and the shards must not feel it. */
import { reset } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import { expectLog } from "../../support/expected-logs.ts";
import { pass, stopClock } from "../clock.ts";
import { never, until } from "../support.ts";

const SHARDS = 8;
const LIMIT_MS = 2_000;

afterEach(async () => {
  vi.restoreAllMocks();
  // What an isolate knows outlives a test: the next one begins much later.
  pass(60_000);
  await reset();
});

beforeEach(stopClock);

const ask = async () => (await exports.default.fetch("http://holdfast/ready")).status;
/** However busy the machine is, the shards answer before the time for that is over. */
function neverLate(): void {
  const wait = scheduler.wait.bind(scheduler);
  vi.spyOn(scheduler, "wait").mockImplementation((ms) => (ms < LIMIT_MS ? wait(ms) : never()));
}

const askOften = (times: number) => Promise.all(Array.from({ length: times }, ask));

describe("readiness", () => {
  it("is asked of each shard once in five seconds, though a thousand ask at the same moment", async () => {
    neverLate();
    const ping = vi.spyOn(DirectoryObject.prototype, "ping");
    expect(new Set(await askOften(1_000))).toEqual(new Set([200]));
    expect(ping).toHaveBeenCalledTimes(SHARDS);
    pass(4_999);
    expect(new Set(await askOften(100))).toEqual(new Set([200]));
    expect(ping).toHaveBeenCalledTimes(SHARDS);
    pass(1);
    expect(new Set(await askOften(100))).toEqual(new Set([200]));
    expect(ping).toHaveBeenCalledTimes(2 * SHARDS);
  });

  it("is denied to all who ask while one shard fails, and granted when it works again", async () => {
    neverLate();
    expectLog("directory_unreachable", { error: "Error: unreachable" });
    const ping = vi.spyOn(DirectoryObject.prototype, "ping").mockImplementationOnce(() => {
      throw new Error("unreachable");
    });
    expect(new Set(await askOften(50))).toEqual(new Set([503]));
    // The others may answer later than the one that failed.
    await until(() => ping.mock.calls.length >= SHARDS);
    expect(ping).toHaveBeenCalledTimes(SHARDS);
    pass(5_000);
    expect(await ask()).toBe(200);
  });

  it("is denied within two seconds by shards that do not answer, and asked again though a question was lost", async () => {
    const ping = vi.spyOn(DirectoryObject.prototype, "ping").mockImplementation(() => never());
    const denied = ask();
    await until(() => ping.mock.calls.length === SHARDS);
    // As if the request that asked had ended without a word.
    pass(4_000);
    ping.mockImplementation(() => {});
    expect(await ask()).toBe(200);
    expect(await denied).toBe(503);
  });
});
