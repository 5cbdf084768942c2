import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { html, prose } from "../../src/http/openapi/reference/markup.ts";
import { referencePage } from "../../src/http/openapi/reference-page.ts";
import { ROUTES } from "../../src/http/openapi/routes.ts";
import { ERRORS } from "../../src/http/reply/errors.ts";
import { VERSION } from "../../src/version.ts";

const reply = await referencePage("locks.example");
const page = await reply.clone().text();
const articles = new Map(
  [...page.matchAll(/<article id="(\w+)">([\s\S]*?)<\/article>/g)].map(([, id, inner]) => [id, inner ?? ""]),
);

const SOCKETS: ReadonlySet<string> = new Set(["openWebSocket", "openGodistlock", "openRelay"]);

test("the page has every operation with its method and path, in the text and in the navigation", () => {
  expect([...articles.keys()].sort()).toEqual(ROUTES.map(({ operationId }) => operationId).sort());
  for (const { operationId, method, path } of ROUTES) {
    const article = articles.get(operationId) ?? "";
    const plain = article.replaceAll("<wbr>", "");
    expect(plain).toContain(`>${method}</span> <code>${path}</code>`);
    expect(plain.includes("curl "), operationId).toBe(!SOCKETS.has(operationId));
    expect(page).toContain(`<li><a href="#${operationId}">`);
  }
});

test("it shows fields with ranges and defaults, replies with examples, and all errors", () => {
  const article = articles.get("acquireSem") ?? "";
  expect(article).toContain("0 to 9,223,372,036 · default 0");
  expect(article).toContain("1 to 1,048,576");
  expect(article).toContain("&#34;lease_ttl_s&#34;:33");
  for (const code of Object.keys(ERRORS)) expect(page).toContain(`<code>${code}</code>`);
  expect(page).toContain(VERSION);
});

test("it needs nothing from outside and runs nothing", () => {
  expect(page).not.toMatch(/(https?:)?\/\/\w/);
  expect(page).not.toMatch(/<(script|img|iframe|object|embed|link|form|base)\b/i);
  expect(page).not.toMatch(/<[^>]*\son\w+\s*=/i);
  expect(page).not.toMatch(/<[^>]*\sstyle\s*=/i);
  expect(page).not.toMatch(/url\(|@import|javascript:/i);
  for (const [, href] of page.matchAll(/href="([^"]*)"/g)) expect(href).toMatch(/^(#\w+|v1\/openapi\.json)$/);
});

test("every link inside leads somewhere, and no id is used twice", () => {
  const ids = [...page.matchAll(/ id="([^"]*)"/g)].map(([, id]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  for (const [, target] of page.matchAll(/href="#(\w+)"/g)) expect(ids).toContain(target);
});

test("elements are closed in the order they were opened", () => {
  const open: string[] = [];
  for (const [, slash, name = ""] of page.matchAll(/<(\/?)([a-z][a-z0-9]*)\b[^>]*>/g)) {
    if (["meta", "wbr"].includes(name)) continue;
    if (slash === "") open.push(name);
    else expect(open.pop()).toBe(name);
  }
  expect(open).toEqual([]);
});

test("the policy allows the one stylesheet and nothing else", () => {
  const [, style = ""] = /<style>([\s\S]*?)<\/style>/.exec(page) ?? [];
  const hash = createHash("sha256").update(style).digest("base64");
  const policy = reply.headers.get("Content-Security-Policy") ?? "";
  expect(policy.split("; ")).toEqual([
    "default-src 'none'",
    `style-src 'sha256-${hash}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ]);
  expect(reply.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
  expect(reply.headers.get("X-Content-Type-Options")).toBe("nosniff");
});

test("text becomes text, whatever it looks like", () => {
  const hostile = `<script>"'&`;
  expect(html`<p title="${hostile}">${[hostile, false, undefined, 0]}</p>`.text).toBe(
    '<p title="&#60;script&#62;&#34;&#39;&#38;">&#60;script&#62;&#34;&#39;&#38;0</p>',
  );
  expect(prose("a `<b>`\n\nc").map(({ text }) => text)).toEqual(["<p>a <code>&#60;b&#62;</code></p>", "<p>c</p>"]);
});
