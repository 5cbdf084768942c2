/** What every reply of the HTTP API has to keep to, whatever was asked. */
import { expect } from "vitest";
import { entriesOf } from "../../src/http/openapi/reference/model.ts";
import { document, judgeReply } from "../http/judge.ts";
import type { HttpReply, HttpRequest } from "./http-client.ts";

/** A page of a foreign origin is told nothing. */
const WITHOUT_DETAIL = "origin_forbidden";

/** Parts of the console, in forms of their own. */
const FILES: ReadonlySet<string> = new Set(["getConsole", "getConsoleScript", "getConsoleStyle"]);

/** Replies that carry what a holder has sent, in its own form. */
const OF_HOLDERS: Readonly<Record<string, readonly number[]>> = {
  getFile: [200],
  putFile: [200, 201, 412],
  deleteFile: [412],
  getTerraformLock: [200],
  lockTerraform: [200, 423],
  putTerraformLock: [200, 423],
  unlockTerraform: [200, 409],
};

/** Methods that the document cannot name, and those that do the same. */
const NAMED: Readonly<Record<string, string>> = { HEAD: "GET", LOCK: "POST", UNLOCK: "DELETE" };

const OPERATIONS = entriesOf(document).map(({ method, path, operationId }) => ({
  method,
  segments: path.split("/"),
  operationId,
}));

/** The operation that takes the request, if one does. HEAD is taken by whatever takes GET; LOCK and UNLOCK are Terraform's. */
export function operationFor({ method, path }: Pick<HttpRequest, "method" | "path">): string | undefined {
  const given = (path.split("?")[0] ?? "").split("/");
  const isNamedHere = method === "HEAD" || path.startsWith("/v1/terraform/");
  const asked = (isNamedHere ? NAMED[method] : undefined) ?? method;
  return OPERATIONS.find(
    (operation) =>
      operation.method === asked &&
      operation.segments.length === given.length &&
      operation.segments.every((step, at) => (step.startsWith("{") ? given[at] !== "" : given[at] === step)),
  )?.operationId;
}

/**
 * Fails unless the reply has the form that all replies have and is one that the OpenAPI document foresees for the
 * request. (That the served document is the one used here is a promise of its own.)
 */
export async function checkReply(request: HttpRequest, reply: HttpReply): Promise<void> {
  const about = `${request.method} ${request.path} → ${reply.status} ${JSON.stringify(reply.body)}`;
  if (reply.status === 101) {
    expect(operationFor(request), about).toBe("openWebSocket");
    return;
  }
  if (reply.status === 204) {
    expect(reply.body, about).toBe("");
    expect(reply.headers, about).not.toHaveProperty("content-type");
  } else checkForm(request, reply, about);
  // The document lists no HEAD: such a reply is the one to GET without its body.
  if (request.method !== "HEAD" && !isPreflight(request)) expect(await faults(request, reply), about).toEqual([]);
}

function checkForm(request: HttpRequest, { status, headers, body }: HttpReply, about: string): void {
  const operation = operationFor(request) ?? "";
  expect(headers["x-content-type-options"], about).toBe("nosniff");
  const isFile = FILES.has(operation) && status === 200;
  const isCacheable = (isFile && operation !== "getConsole") || (operation === "getOpenAPI" && status === 200);
  expect(headers["cache-control"], about).toBe(isCacheable ? "public, max-age=60" : "no-store");
  if (isFile || (operation === "getMetrics" && status === 200)) return;
  if (OF_HOLDERS[operation]?.includes(status)) {
    const isText = operation.endsWith("File");
    expect(headers["content-type"], about).toBe(isText ? "text/plain; charset=utf-8" : "application/json");
    return;
  }
  expect(headers["content-type"], about).toBe("application/json");
  if (request.method === "HEAD") {
    expect(body, about).toBe("");
    return;
  }
  const value: unknown = JSON.parse(body);
  expect(body, `compact, and a line feed: ${about}`).toBe(`${JSON.stringify(value)}\n`);
  expect(hasNull(value), `what is absent is left out: ${about}`).toBe(false);
  if (status >= 400 && operation !== "getReady") checkError(value as Record<string, unknown>, about);
}

/** An error has a code and a detail for people; nothing else. */
function checkError(value: Record<string, unknown>, about: string): void {
  const { error, detail } = value as { error: string; detail?: string };
  expect(Object.keys(value), about).toEqual(error === WITHOUT_DETAIL ? ["error"] : ["error", "detail"]);
  if (error !== WITHOUT_DETAIL) expect(detail, about).toMatch(/\S/);
}

const hasNull = (value: unknown): boolean =>
  value === null || (typeof value === "object" && Object.values(value).some(hasNull));

function isPreflight({ method, headers = {} }: HttpRequest): boolean {
  return method === "OPTIONS" && Object.keys(headers).includes("Access-Control-Request-Method");
}

function faults(request: HttpRequest, { status, headers, body }: HttpReply): Promise<unknown[]> {
  // What is answered before the route is looked at is the same everywhere, and foreseen on every route there is.
  const isBeforeRoute = status === 401 || status === 421 || status === 429 || status === 500;
  const operation = operationFor(request) ?? (isBeforeRoute ? "getStats" : undefined);
  // The platform keeps `Upgrade` from leaving with anything but a 101 (workerd 2026-11).
  const arrived = status === 426 ? { ...headers, upgrade: "websocket" } : headers;
  return judgeReply(operation, new Response(status === 204 ? null : body, { status, headers: arrived }));
}
