/** The rules by which the tests judge every reply do refuse what breaks them. */
import { expect, it } from "vitest";
import type { HttpReply, HttpRequest } from "../support/http-client.ts";
import { checkReply } from "../support/reply-rules.ts";

const STATS = '{"connections":0,"locks":[],"semaphores":[],"idle_locks":[],"idle_semaphores":[]}\n';
const HEADERS = {
  "content-type": "application/json",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
};
const get = (path: string): HttpRequest => ({ method: "GET", path });
const ACQUIRE: HttpRequest = { method: "POST", path: "/v1/locks/k" };
const TIMEOUT = '{"status":"timeout"}\n';

function reply(status: number, body: string, headers: Record<string, string> = HEADERS): HttpReply {
  return { status, body, headers, ms: 0, livedMs: 0 };
}

it.each<[string, HttpRequest, HttpReply]>([
  ["a document", get("/v1/stats"), reply(200, STATS)],
  ["an error with the detail it must have", ACQUIRE, reply(400, '{"error":"bad_request","detail":"limit"}\n')],
  ["a page refused without a word", get("/v1/ws"), reply(403, '{"error":"origin_forbidden"}\n')],
  ["nothing", { method: "POST", path: "/v1/locks/k/release" }, reply(204, "", {})],
  ["a head", { method: "HEAD", path: "/v1/stats" }, reply(200, "")],
  ["a probe that says no", get("/ready"), reply(503, '{"status":"draining"}\n')],
])("%s passes", async (_, request, good) => {
  await checkReply(request, good);
});

it.each<[string, HttpRequest, HttpReply]>([
  ["no line feed", get("/v1/stats"), reply(200, STATS.trimEnd())],
  ["blanks within", get("/v1/stats"), reply(200, STATS.replaceAll(":", ": "))],
  ["a blank before what did not wait", get("/v1/stats"), reply(200, ` ${STATS}`)],
  ["a blank before what waited", ACQUIRE, reply(200, ` ${TIMEOUT}`)],
  ["null", ACQUIRE, reply(200, '{"status":"timeout","token":null}\n')],
  ["another outcome", ACQUIRE, reply(200, '{"status":"queued"}\n')],
  [
    "a status of another operation",
    { method: "POST", path: "/v1/sessions" },
    reply(409, '{"error":"not_enqueued","detail":"x"}\n'),
  ],
  ["an error without its detail", ACQUIRE, reply(400, '{"error":"bad_request"}\n')],
  ["an error with a detail too much", get("/v1/ws"), reply(403, '{"error":"origin_forbidden","detail":"no"}\n')],
  ["an error with more to say", ACQUIRE, reply(410, '{"error":"session_gone","detail":"it is","hint":"it is"}\n')],
  ["a 401 that does not say what to show", ACQUIRE, reply(401, '{"error":"unauthorized","detail":"no"}\n')],
  ["a 405 that allows nothing", get("/v1/locks/k"), reply(405, '{"error":"method_not_allowed","detail":"no"}\n')],
  ["a charset", get("/v1/stats"), reply(200, STATS, { ...HEADERS, "content-type": "application/json; charset=utf-8" })],
  ["a type that may be guessed", get("/v1/stats"), reply(200, STATS, { ...HEADERS, "x-content-type-options": "" })],
  ["a document that may be cached", get("/v1/stats"), reply(200, STATS, { ...HEADERS, "cache-control": "public" })],
  ["a head with a body", { method: "HEAD", path: "/v1/stats" }, reply(200, STATS)],
  ["nothing, of a type", { method: "POST", path: "/v1/locks/k/release" }, reply(204, "", HEADERS)],
  ["a socket that nobody asked for", get("/v1/stats"), reply(101, "", {})],
])("%s is refused", async (_, request, bad) => {
  await expect(checkReply(request, bad)).rejects.toThrow();
});
