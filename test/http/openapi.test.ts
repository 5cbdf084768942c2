import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openApiDocument } from "../../src/http/openapi/document.ts";
import {
  entriesOf,
  type Media,
  type Parameter,
  type ReferenceOperation,
  type Reply,
  resolved,
} from "../../src/http/openapi/reference/model.ts";
import { ROUTES, UNNAMED_METHODS } from "../../src/http/openapi/routes.ts";
import { REQUESTS } from "../../src/http/openapi/schemas.ts";
import { ERRORS, errorRule } from "../../src/http/reply/errors.ts";
import { VERSION } from "../../src/version.ts";
import { ajv, document, judge, judgeReply, step } from "./judge.ts";

const text = openApiDocument();
const entries = entriesOf(document);

/** Every place of the document where a schema stands beside examples: content and parameters. */
function* places(value: unknown, pointer = ""): Generator<{ pointer: string; media: Media }> {
  if (typeof value !== "object" || value === null) return;
  if ("schema" in value) yield { pointer, media: value as Media };
  for (const [name, inner] of Object.entries(value)) yield* places(inner, `${pointer}/${step(name)}`);
}
const examplesOf = ({ example, examples = {} }: Media) => [
  ...(example === undefined ? [] : [example]),
  ...Object.values(examples).map(({ value }) => value),
];

/** Every `$ref` of the document. */
function* refs(value: unknown): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    if (name === "$ref") yield inner as string;
    else yield* refs(inner);
  }
}

test("the document in the repository is the one that is served (else: node scripts/openapi.ts)", () => {
  const kept = readFileSync(new URL("../../docs/openapi.json", import.meta.url), "utf8");
  expect(kept === text).toBe(true);
  expect(text).toBe(`${JSON.stringify(document)}\n`);
});

test("it says what it is: OpenAPI 3.1.0, of this version, on this host", () => {
  expect(document.openapi).toBe("3.1.0");
  expect(document.info).toMatchObject({ title: "holdfast", version: VERSION });
  expect(document.servers).toEqual([{ url: "/" }]);
  expect(Object.keys(document)).toEqual(["openapi", "info", "servers", "security", "tags", "paths", "components"]);
});

test("router and document have the same operations", () => {
  const listed = entries.map(({ operationId, method, path }) => ({ operationId, method, path }));
  expect(ROUTES.map(({ operationId, method, path }) => ({ operationId, method, path }))).toEqual(listed);
  expect(new Set(ROUTES.map(({ operationId }) => operationId)).size).toBe(ROUTES.length);
  for (const { path, honoPath } of ROUTES) expect(honoPath).toBe(path.replaceAll(/\{(\w+)\}/g, ":$1"));
});

test("methods that it cannot name stand for operations that it has, and are told in words", () => {
  for (const { method, operationId } of UNNAMED_METHODS) {
    expect(entries.find((entry) => entry.operationId === operationId)?.description).toContain(`\`${method}\``);
  }
  expect(UNNAMED_METHODS.map(({ method }) => method)).toEqual(["LOCK", "UNLOCK"]);
});

test("the operations of dflockd have their names", () => {
  const names = Object.fromEntries(ROUTES.map(({ operationId, method, path }) => [operationId, `${method} ${path}`]));
  expect(names).toMatchObject({
    getHealth: "GET /health",
    getReady: "GET /ready",
    getMetrics: "GET /metrics",
    getOpenAPI: "GET /v1/openapi.json",
    getStats: "GET /v1/stats",
    openWebSocket: "GET /v1/ws",
    createSession: "POST /v1/sessions",
    deleteSession: "DELETE /v1/sessions/{id}",
    pingSession: "POST /v1/sessions/{id}/ping",
    acquireLock: "POST /v1/locks/{key}",
    releaseLock: "POST /v1/locks/{key}/release",
    renewLock: "POST /v1/locks/{key}/renew",
    enqueueLock: "POST /v1/locks/{key}/enqueue",
    waitLock: "POST /v1/locks/{key}/wait",
    acquireSem: "POST /v1/semaphores/{key}",
    releaseSem: "POST /v1/semaphores/{key}/release",
    renewSem: "POST /v1/semaphores/{key}/renew",
    enqueueSem: "POST /v1/semaphores/{key}/enqueue",
    waitSem: "POST /v1/semaphores/{key}/wait",
  });
});

describe("the document is well formed", () => {
  test("every reference leads somewhere", () => {
    for (const ref of new Set(refs(document))) expect(resolved(document, { $ref: ref }), ref).toBeTypeOf("object");
  });

  test("every schema is valid JSON Schema", () => {
    for (const { pointer } of places(document)) {
      expect(() => ajv.getSchema(`document#${pointer}/schema`), pointer).not.toThrow();
    }
    for (const name of Object.keys(document.components.schemas)) {
      expect(ajv.validateSchema(document.components.schemas[name]), name).toBe(true);
    }
  });

  test.each(entries)("$operationId has what an operation needs", (entry: ReferenceOperation) => {
    expect(entry.summary).not.toBe("");
    expect(document.tags.map(({ name }: { name: string }) => name)).toEqual(expect.arrayContaining([...entry.tags]));
    const parameters = (entry.parameters ?? []).map((parameter) => resolved<Parameter>(document, parameter));
    const inPath = parameters.filter((parameter) => parameter.in === "path");
    expect(inPath.map(({ name }) => `{${name}}`)).toEqual(entry.path.match(/\{\w+\}/g) ?? []);
    for (const { required } of inPath) expect(required).toBe(true);
    const known = parameters.map((parameter) => `${parameter.in} ${parameter.name}`);
    expect(new Set(known).size).toBe(known.length);
    for (const [status, reply] of Object.entries(entry.responses)) {
      expect(status).toMatch(/^[1-5][0-9]{2}$/);
      expect(resolved<Reply>(document, reply).description).not.toBe("");
    }
  });
});

test("every example is valid, and every body and JSON reply has one", () => {
  let judged = 0;
  for (const { pointer, media } of places(document)) {
    const examples = examplesOf(media);
    if (pointer.includes("/content/")) expect(examples.length, pointer).toBeGreaterThan(0);
    for (const value of examples) {
      expect(judge(`${pointer}/schema`, value), `${pointer}: ${JSON.stringify(value)}`).toEqual([]);
      judged += 1;
    }
  }
  expect(judged).toBeGreaterThan(80);
});

test("the judge does refuse", async () => {
  expect(judge("/components/schemas/AcquireReply", { status: "ok" })).not.toEqual([]);
  expect(judge("/components/schemas/AcquireSemRequest", { limit: 0 })).not.toEqual([]);
  expect(judge("/components/schemas/AcquireLockRequest", { limit: 1 })).not.toEqual([]);
  const json = { headers: { "Content-Type": "application/json" } };
  const judged = (id: string | undefined, body: unknown, status: number) =>
    judgeReply(id, new Response(JSON.stringify(body), { ...json, status }));
  expect(await judged("acquireLock", { status: "timeout" }, 200)).toEqual([]);
  expect(await judged("acquireLock", { error: "session_gone", detail: "no" }, 410)).toEqual([]);
  expect(await judged("acquireLock", { error: "session_gone" }, 410)).not.toEqual([]);
  expect(await judged("acquireLock", { error: "not_held", detail: "no" }, 404)).not.toEqual([]);
  expect(await judged("acquireLock", { error: "unauthorized", detail: "no" }, 401)).toEqual([
    "header WWW-Authenticate is missing",
  ]);
  expect(await judged(undefined, { error: "not_found", detail: "no" }, 404)).toEqual([]);
  expect(await judged("pingSession", {}, 200)).not.toEqual([]);
  expect(await judgeReply("pingSession", new Response(null, { status: 204 }))).toEqual([]);
});

test("a bearer token is asked for everywhere but where nobody has one", () => {
  expect(document.components.securitySchemes.bearerAuth).toMatchObject({ type: "http", scheme: "bearer" });
  expect(document.components.securitySchemes.basicAuth).toMatchObject({ type: "http", scheme: "basic" });
  const bearerOrBasic = [{ bearerAuth: [] }, { basicAuth: [] }];
  expect(document.security).toEqual([{ bearerAuth: [] }]);
  const special = entries.filter(({ security }) => security !== undefined);
  expect(Object.fromEntries(special.map(({ operationId, security }) => [operationId, security]))).toEqual({
    getConsole: [],
    getConsoleScript: [],
    getConsoleStyle: [],
    getHealth: [],
    getReady: [],
    getOpenAPI: [],
    getReference: [],
    openWebSocket: [{}, { bearerAuth: [] }],
    openGodistlock: [{}, { bearerAuth: [] }],
    openRelay: [{}, { bearerAuth: [] }],
    getFile: bearerOrBasic,
    putFile: bearerOrBasic,
    deleteFile: bearerOrBasic,
    getTerraformLock: bearerOrBasic,
    lockTerraform: bearerOrBasic,
    putTerraformLock: bearerOrBasic,
    unlockTerraform: bearerOrBasic,
  });
  for (const entry of entries) {
    const isOpen = entry.security?.length === 0;
    expect("401" in entry.responses, entry.operationId).toBe(!isOpen);
  }
});

test("shared parameters state their rules", () => {
  const { KeyPath, SessionIdPath, SessionHeader } = document.components.parameters;
  expect(KeyPath).toMatchObject({ name: "key", in: "path", schema: { type: "string", minLength: 1, maxLength: 256 } });
  expect(SessionIdPath).toMatchObject({ name: "id", in: "path", schema: { pattern: "^[0-9a-f]{32}$" } });
  expect(SessionHeader).toMatchObject({
    name: "X-Dflockd-Session",
    in: "header",
    required: true,
    schema: { pattern: "^[0-9a-f]{32}$" },
  });
});

test("requests are closed, and integers have 64 bits, ranges and defaults", () => {
  const { schemas } = document.components;
  const wholeSeconds = { type: "integer", format: "int64", minimum: 0, maximum: 9_223_372_036, default: 0 };
  expect(schemas.AcquireSemRequest).toMatchObject({
    additionalProperties: false,
    required: ["limit"],
    properties: {
      acquire_timeout_s: wholeSeconds,
      lease_ttl_s: wholeSeconds,
      limit: { type: "integer", format: "int64", minimum: 1, maximum: 1_048_576 },
    },
  });
  expect(schemas.WaitRequest).toMatchObject({ additionalProperties: false, properties: { timeout_s: wholeSeconds } });
  expect(schemas.RenewRequest).toMatchObject({ required: ["token"], properties: { lease_ttl_s: wholeSeconds } });
  const withBody = entries.filter(({ requestBody }) => requestBody !== undefined);
  // These have formats of their own: a lock text, and an object whose other members are kept as they are.
  const free = ["putFile", "lockTerraform", "putTerraformLock", "unlockTerraform"];
  expect(withBody.map(({ operationId }) => operationId).sort()).toEqual([...Object.keys(REQUESTS), ...free].sort());
  const optional = withBody.filter(({ requestBody }) => requestBody?.required === false);
  const mayBeEmpty = ["createSession", "enqueueLock", "putFile", "unlockTerraform"];
  expect(optional.map(({ operationId }) => operationId)).toEqual(mayBeEmpty);
});

test("every error code has its place, under its own status, with its headers", () => {
  const seen = new Set<string>();
  for (const [name, reply] of Object.entries<Reply>(document.components.responses)) {
    const codes = reply.content?.["application/json"]?.schema?.properties?.error?.enum ?? [];
    for (const code of codes as (keyof typeof ERRORS)[]) {
      seen.add(code);
      for (const header of Object.keys(errorRule(code).headers ?? {}))
        expect(reply.headers, name).toHaveProperty(header);
    }
  }
  expect([...seen].sort()).toEqual(Object.keys(ERRORS).sort());
  for (const { responses, operationId } of entries) {
    for (const [status, reply] of Object.entries(responses)) {
      const codes = resolved<Reply>(document, reply).content?.["application/json"]?.schema?.properties?.error?.enum;
      for (const code of (codes ?? []) as (keyof typeof ERRORS)[]) {
        expect(String(ERRORS[code].status), `${operationId} ${code}`).toBe(status);
      }
    }
  }
  expect(document.components.responses.RateLimited.headers).toHaveProperty("Retry-After");
});
