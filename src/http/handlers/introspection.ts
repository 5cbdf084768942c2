import { isTrusted, mayUse } from "../../core/auth/principal.ts";
import { EXPOSITION_TYPE } from "../../core/metrics/exposition.ts";
import { logged } from "../../log.ts";
import { groupDocument } from "../../reports/group.ts";
import { keyDocument, statsDocument } from "../../reports/stats.ts";
import { renderMetrics } from "../middleware/metrics.ts";
import { openApiDocument } from "../openapi/document.ts";
import { referencePage } from "../openapi/reference-page.ts";
import { keyQuery, metricsQuery, statsQuery } from "../openapi/schemas.ts";
import { fail, JSON_HEADERS, jsonText } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";
import { parseQuery } from "../request/fields.ts";
import { keyFault, segmentAt } from "../request/path.ts";

const KEY_SEGMENT = 2;

export async function getStats(context: AppContext): Promise<Response> {
  const principal = context.get("principal");
  if (!mayUse(principal, "stats")) return fail(context, "forbidden");
  const params = new URL(context.req.url).searchParams;
  const query = parseQuery(statsQuery, params);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const { prefix = "", limit, cursor = "", detail } = query.value;
  const isPaged = params.has("limit") || params.has("cursor");
  const scope = principal.type === "ticket" ? principal.scope : undefined;
  const { address } = context.get("caller");
  const question = { prefix, cursor, detail, scope, address, ...(isPaged && { limit }) };
  try {
    return jsonText(context, await statsDocument(context.env.service, question));
  } catch (error) {
    logged("stats_failed", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
}

export async function getKey(context: AppContext): Promise<Response> {
  const key = segmentAt(context.req.path, KEY_SEGMENT);
  const fault = keyFault(key);
  if (key === undefined || fault !== undefined) return fail(context, "bad_request", fault);
  if (!mayUse(context.get("principal"), "stats", key)) return fail(context, "forbidden");
  const query = parseQuery(keyQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  try {
    const document = await keyDocument(context.env.service, key, query.value);
    return document ? jsonText(context, document) : fail(context, "not_found", "the key is not in use");
  } catch (error) {
    logged("stats_failed", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
}

export async function getRelay(context: AppContext): Promise<Response> {
  if (!mayUse(context.get("principal"), "stats")) return fail(context, "forbidden");
  try {
    return jsonText(context, await groupDocument(context.env.service));
  } catch (error) {
    logged("stats_failed", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
}

export async function getMetrics(context: AppContext): Promise<Response> {
  if (!isTrusted(context.get("principal")))
    return fail(context, "forbidden", "a ticket does not open metrics; send the token");
  const query = parseQuery(metricsQuery, new URL(context.req.url).searchParams);
  if (!query.ok) return fail(context, "bad_request", query.detail);
  const estimates = !query.value.exact;
  try {
    const { service } = context.env;
    const isDraining = context.get("config").draining;
    const { address } = context.get("caller");
    const render = () => renderMetrics(service, { isDraining, estimates });
    const text = await service.share(`metrics ${estimates}`, render, address);
    return context.body(text, 200, { ...JSON_HEADERS, "Content-Type": EXPOSITION_TYPE });
  } catch (error) {
    logged("metrics_failed", context.env.service.log)(error);
    return fail(context, "unavailable");
  }
}

export function getOpenAPI(context: AppContext): Response {
  return context.body(openApiDocument(context.env.mount), 200, {
    ...JSON_HEADERS,
    "Cache-Control": "public, max-age=60",
  });
}

export function getReference(context: AppContext): Promise<Response> {
  const { protocol, host } = new URL(context.req.url);
  const address = `${host}${context.env.mount ?? ""}`;
  return referencePage(protocol === "https:" ? `https://${address}` : address);
}
