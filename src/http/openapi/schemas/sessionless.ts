import { z } from "@hono/zod-openapi";
import { MAX_SECONDS } from "../../../core/config/config.ts";
import { numberInQuery } from "./parameters.ts";
import { unbrokenText } from "./rules.ts";

const MAX_WAIT_S = 300;
const FILE_LEASE_S = 3_600;
/** A year: the client never refreshes, and its users expect a lock to stay until it is unlocked. */
const TERRAFORM_LEASE_S = 31_536_000;

export const STALE_HEADER = "X-Stale-Timeout";

/** The name of a file or lock in a path: a key like any other. */
export const namePath = unbrokenText().openapi("NamePath", {
  param: {
    name: "name",
    in: "path",
    description:
      "The name: a key of the service, 1 to 256 bytes of UTF-8 without space, tab, line feed and carriage return, " +
      "percent-encoded. A slash inside is written `%2F`.",
    example: "deploy",
  },
});

export const staleHeader = z.object({
  [STALE_HEADER]: numberInQuery(1, MAX_SECONDS, FILE_LEASE_S).openapi({
    param: { description: "Seconds after which the file is gone unless it is refreshed.", example: 60 },
  }),
});

const condition = (description: string, example: string) =>
  z.string().optional().openapi({ param: { description, example } });

export const putFileHeaders = z.object({
  "If-None-Match": condition("`*`: create the file, if nobody holds the key.", "*"),
  "If-Match": condition(
    "A fence in double quotes, several of them, or `*`: refresh the file, if it is this one.",
    '"1774945200000000007"',
  ),
  ...staleHeader.shape,
});

export const deleteFileHeaders = z.object({
  "If-Match": condition(
    "A fence in double quotes, several of them, or `*`: remove the file only if it is this one.",
    '"1774945200000000007"',
  ),
});

export const fileQuery = z.object({
  wait: numberInQuery(0, MAX_WAIT_S, 0).openapi({
    param: { description: "With `If-None-Match`: seconds to wait in the queue of the key.", example: 30 },
  }),
});

export const terraformLockQuery = z.object({
  stale: numberInQuery(1, MAX_SECONDS, TERRAFORM_LEASE_S).openapi({
    param: { description: "Seconds after which the lock is gone by itself.", example: 86_400 },
  }),
});

const idRule = { error: "must be 1 to 256 characters" };
const lockId = z
  .string(idRule)
  .min(1, idRule)
  .refine((text) => [...text].length <= 256, idRule)
  .openapi({ minLength: 1, maxLength: 256 });

export const terraformUnlockQuery = z.object({
  ID: lockId.optional().openapi({ param: { description: "The lock's id, where there is no body.", example: "a1" } }),
});

/** Other members are kept unchanged. */
export const lockInfo = z
  .looseObject({ ID: lockId.openapi({ description: "Names the lock. Only this member is compared." }) })
  .openapi("TerraformLockInfo");

/** The lock that was released, or an empty object if there was none. */
export const unlockedReply = z.looseObject({ ID: lockId.optional() }).openapi("TerraformUnlocked");
