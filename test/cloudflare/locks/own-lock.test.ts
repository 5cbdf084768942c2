/** What can be done to a lock of `locks()`. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { locks } from "../../../src/cloudflare/lock-key/index.ts";
import { fresh } from "../support.ts";

const LEASE = 600_000;

it.each([undefined, {}, { lease: undefined }])("a lock is renewed for its own lease, given %j", async (options) => {
  await using lock = await locks(env.KEY).acquire(fresh("key"), { lease: LEASE });
  expect(await lock?.renew(options)).toEqual({ remaining: LEASE });
});
