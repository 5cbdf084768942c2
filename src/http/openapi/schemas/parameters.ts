import { z } from "@hono/zod-openapi";
import { MAX_TICKET_LENGTH } from "../../../core/auth/tickets.ts";
import { hexDigits, isWithinBytes, labelText, unbrokenText } from "./rules.ts";

const MAX_KEYS = 10_000;

export const SESSION_HEADER = "X-Dflockd-Session";
export const LABEL_HEADER = "X-Holdfast-Label";

const EXAMPLE_SESSION = "5f0c2a9be1d84376a1b2c3d4e5f60718";

/** A key in a path, percent-decoded. */
export const keyPath = unbrokenText().openapi("KeyPath", {
  param: {
    name: "key",
    in: "path",
    description:
      "The key: 1 to 256 bytes of UTF-8 without space, tab, line feed and carriage return, percent-encoded. " +
      "A slash inside a key is written `%2F`.",
    example: "deploy",
  },
});

export const sessionIdPath = hexDigits(32).openapi("SessionIdPath", {
  param: { name: "id", in: "path", description: "The session's id.", example: EXAMPLE_SESSION },
});

export const sessionHeader = hexDigits(32).openapi("SessionHeader", {
  param: {
    name: SESSION_HEADER,
    in: "header",
    description: "The session that asks; made by `createSession`.",
    example: EXAMPLE_SESSION,
  },
});

export const labelHeader = labelText()
  .optional()
  .openapi("LabelHeader", {
    param: {
      name: LABEL_HEADER,
      in: "header",
      description: "A name for people to read, shown in stats: 1 to 64 printable characters.",
      example: "ci-runner-7",
    },
  });

/** A number in a query: text that must look like one. */
export function numberInQuery(least: number, most: number, fallback: number) {
  const rule = { error: `must be a whole number from ${least} to ${most}` };
  return z
    .string(rule)
    .regex(/^[0-9]{1,15}$/, rule)
    .transform(Number)
    .pipe(z.int(rule).min(least, rule).max(most, rule))
    .default(fallback)
    .openapi({ type: "integer", format: "int64", minimum: least, maximum: most, default: fallback });
}

/** False unless the text is `true`. */
function flagInQuery() {
  return z
    .enum(["true", "false"], { error: "must be true or false" })
    .transform((text) => text === "true")
    .default(false)
    .openapi({ type: "boolean", default: false });
}

const prefixRule = { error: "must be a string of at most 256 bytes without space, tab or line break" };

export const statsQuery = z.object({
  prefix: z
    .string(prefixRule)
    .max(256, prefixRule)
    .regex(/^[^ \t\n\r]*$/, prefixRule)
    .refine(isWithinBytes, prefixRule)
    .optional()
    .openapi({ param: { description: "Only keys that begin with this text.", example: "build/" } }),
  limit: numberInQuery(1, MAX_KEYS, MAX_KEYS).openapi({
    param: { description: "Most keys to list. A page may have fewer.", example: 100 },
  }),
  cursor: z
    .string({ error: "must be a cursor of an earlier reply" })
    .min(1, { error: "must be a cursor of an earlier reply" })
    .max(2048, { error: "must be a cursor of an earlier reply" })
    .optional()
    .openapi({
      param: { description: "Go on where an earlier reply with `next_cursor` ended.", example: "build/7" },
    }),
  detail: flagInQuery().openapi({
    param: { description: "Also list who holds and who waits (`held_by`, `queue`).", example: true },
  }),
});

export const metricsQuery = z.object({
  exact: flagInQuery().openapi({
    param: { description: "Leave out figures that would be estimates; no key is asked for them.", example: true },
  }),
});

export const keyQuery = z.object({
  history: flagInQuery().openapi({
    param: { description: "Also list the newest grants (`history`), those that have ended included.", example: true },
  }),
});

export const upgradeQuery = z.object({
  label: labelText()
    .optional()
    .openapi({ param: { description: "As header `X-Holdfast-Label`, which browsers cannot set.", example: "tab-1" } }),
  ticket: z
    .string()
    .min(1, { error: "must be a ticket" })
    .max(MAX_TICKET_LENGTH, { error: "must be a ticket" })
    .optional()
    .openapi({
      param: {
        description: "A ticket of `createTicket`, for browsers, which cannot set the Authorization header.",
        example: "eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl",
      },
    }),
});

export const removalQuery = z.object({
  token_fence: hexDigits(16).openapi({
    param: { description: "The fence of the grant to end, as `held_by` shows it.", example: "18a2f0c4d5e60007" },
  }),
});
