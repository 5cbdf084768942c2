import type { Parameter, ReferenceOperation } from "./model.ts";

/** Placeholder for the service's address, replaced by the address the page was requested at. */
export const ADDRESS = "holdfast-address:0";

/** The operation as a curl command, or undefined if curl cannot perform it. */
export function curl(entry: ReferenceOperation, parameters: readonly Parameter[], body: unknown): string | undefined {
  if ("101" in entry.responses) return undefined;
  const of = (place: Parameter["in"]) => parameters.filter((parameter) => parameter.in === place);
  const path = of("path").reduce(
    (text, { name, example }) => text.replace(`{${name}}`, encodeURIComponent(String(example))),
    entry.path,
  );
  const query = of("query")
    .filter(({ required }) => required)
    .map(({ name, example }) => `${name}=${encodeURIComponent(String(example))}`)
    .join("&");
  const method = entry.method === "GET" ? "" : `-X ${entry.method} `;
  const lines = [`curl ${method}${quoted(`${ADDRESS}${path}${query === "" ? "" : `?${query}`}`)}`];
  // In double quotes, so that the shell expands the token.
  const token = entry.tags.includes("admin") ? "$HOLDFAST_ADMIN_TOKEN" : "$HOLDFAST_TOKEN";
  if (entry.security?.length !== 0) lines.push(`-H "Authorization: Bearer ${token}"`);
  for (const { name, example, required } of of("header")) {
    // Without this condition nothing is created.
    if (required || name === "If-None-Match") lines.push(`-H ${quoted(`${name}: ${example}`)}`);
  }
  if (body !== undefined) lines.push(`-d ${quoted(typeof body === "string" ? body : JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function quoted(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
