import type { z } from "@hono/zod-openapi";

export type Parsed<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly detail: string };

/** Validates named values against a schema. Each of our rules says what the field `must be`; no value is shown. */
export function parseFields<Schema extends z.ZodObject>(
  schema: Schema,
  fields: Readonly<Record<string, unknown>>,
): Parsed<z.output<Schema>> {
  const result = schema.safeParse(fields);
  if (result.success) return { ok: true, value: result.data };
  const [issue] = result.error.issues;
  const [name, ...inner] = issue?.path.map(String) ?? [];
  if (issue === undefined || name === undefined) return { ok: false, detail: "fields are malformed" };
  if (fields[name] === undefined) return { ok: false, detail: `${name} is required` };
  return { ok: false, detail: `${name}${inner.map((step) => `[${step}]`).join("")} ${issue.message}` };
}

/** Validates the query parameters that the schema names and ignores others. If one is repeated, the last counts. */
export function parseQuery<Schema extends z.ZodObject>(
  schema: Schema,
  query: URLSearchParams,
): Parsed<z.output<Schema>> {
  const named = [...query].filter(([name]) => Object.hasOwn(schema.shape, name));
  return parseFields(schema, Object.fromEntries(named));
}
