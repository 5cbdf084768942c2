import { ERRORS, type ErrorCode } from "../reply/errors.ts";
import { openApi } from "./document.ts";
import { ADDRESS } from "./reference/curl.ts";
import { html, inline, Markup, prose } from "./reference/markup.ts";
import { type ApiDocument, entriesOf, type ReferenceOperation } from "./reference/model.ts";
import { methodBadge, operationArticle } from "./reference/operation.ts";
import { STYLE } from "./reference/style.ts";

let built: Promise<{ readonly page: string; readonly headers: Readonly<Record<string, string>> }> | undefined;

/** The reference as one page: generated from the OpenAPI document, without scripts, needing no other request. */
export async function referencePage(address: string): Promise<Response> {
  built ??= build();
  const { page, headers } = await built;
  // The host of a request has been validated before, so it needs no escaping.
  return new Response(page.replaceAll(ADDRESS, address), { headers });
}

async function build() {
  const document = openApi() as unknown as ApiDocument;
  return {
    page: pageOf(document),
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy":
        `default-src 'none'; style-src 'sha256-${await sha256(STYLE)}'; ` +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
      "Cache-Control": "public, max-age=60",
    },
  };
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(digest)));
}

function pageOf(document: ApiDocument): string {
  const { info, tags } = document;
  const entries = entriesOf(document);
  const groups = tags.map((tag) => ({ ...tag, entries: entries.filter((entry) => entry.tags.includes(tag.name)) }));
  const { text } = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${info.title} API reference</title>
<style>${new Markup(STYLE)}</style>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<nav aria-label="Operations">
<strong>${info.title}</strong> <small>${info.version}</small>
<details><summary>Contents</summary>
${groups.map(({ name, entries: operations }) => tagLinks(name, operations))}
<h2><a href="#errors">Errors</a></h2>
</details>
</nav>
<main id="content">
<h1>${info.title} API</h1>
${prose(info.description)}
<p>The same as a document for tools: <a href="v1/openapi.json">OpenAPI 3.1</a>.</p>
${groups.map(
  ({ name, description, entries: operations }) => html`<section id="${name}">
<h2>${titled(name)}</h2>
<p>${inline(description)}</p>
${operations.map((entry) => operationArticle(document, entry))}
</section>`,
)}
${errorTable()}
</main>
</body>
</html>
`;
  return text;
}

function tagLinks(name: string, entries: readonly ReferenceOperation[]): Markup {
  return html`<h2><a href="#${name}">${titled(name)}</a></h2>
<ul>${entries.map(
    ({ operationId, method, summary }) =>
      html`<li><a href="#${operationId}">${methodBadge(method)} ${summary}</a></li>`,
  )}</ul>`;
}

function errorTable(): Markup {
  return html`<section id="errors">
<h2>Errors</h2>
<p>Every error is a JSON object with a stable <code>error</code>; a <code>detail</code>, where there is one, is for people.</p>
<div class="table" tabindex="0"><table>
<thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">When</th></tr></thead>
<tbody>${(Object.keys(ERRORS) as ErrorCode[]).map(
    (code) =>
      html`<tr><td>${ERRORS[code].status}</td><td><code>${code}</code></td><td>${inline(ERRORS[code].when)}</td></tr>`,
  )}</tbody>
</table></div>
</section>`;
}

function titled(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
