import { curl } from "./curl.ts";
import { memberLists, parameterList } from "./fields.ts";
import { html, inline, type Markup, prose } from "./markup.ts";
import {
  type ApiDocument,
  type Media,
  mediaOf,
  type Parameter,
  type ReferenceOperation,
  type Reply,
  resolved,
} from "./model.ts";

/** One operation in full: the request and every possible reply. */
export function operationArticle(document: ApiDocument, entry: ReferenceOperation): Markup {
  const parameters = (entry.parameters ?? []).map((parameter) => resolved<Parameter>(document, parameter));
  const body = mediaOf(entry.requestBody?.content)?.media;
  const command = curl(entry, parameters, body && examplesOf(body)[0]?.value);
  return html`<article id="${entry.operationId}">
<h3><a href="#${entry.operationId}">${entry.summary}</a></h3>
<p class="route">${methodBadge(entry.method)} <code>${pathWithBreaks(entry.path)}</code> <span class="id">${
    entry.operationId
  }</span></p>
${prose(entry.description)}
${entry.security?.length === 0 && html`<p class="note">Needs no token.</p>`}
${parameters.length > 0 && html`<h4>Parameters</h4>${parameterList(document, parameters)}`}
${body && html`<h4>Body</h4>${bodyOf(document, body, entry)}`}
${command && html`<h4>Try it</h4><pre tabindex="0"><code>${command}</code></pre>`}
<h4>Replies</h4>
${Object.entries(entry.responses).map(([status, reply]) => replyDetails(document, status, resolved<Reply>(document, reply)))}
</article>`;
}

export function methodBadge(method: string): Markup {
  return html`<span class="method ${method.toLowerCase()}">${method}</span>`;
}

/** Lets a long path break after a slash on a narrow screen. */
function pathWithBreaks(path: string): Markup[] {
  return path.split(/(?<=\/)/).map((part) => html`${part}<wbr>`);
}

function bodyOf(document: ApiDocument, media: Media, { requestBody }: ReferenceOperation): Markup {
  const lists = media.schema ? memberLists(document, media.schema) : [];
  return html`${requestBody?.required === false && html`<p class="note">May be left empty.</p>`}${
    lists.length === 0 ? html`<p class="note">Takes no fields.</p>` : lists
  }${examplesOf(media).map(exampleBlock)}`;
}

/** Successes are shown open, failures folded. */
function replyDetails(document: ApiDocument, status: string, { description, headers = {}, content }: Reply): Markup {
  const found = mediaOf(content);
  const isSuccess = Number(status) < 400;
  const lists = isSuccess && found?.media.schema ? memberLists(document, found.media.schema) : [];
  const codes = isSuccess ? [] : errorCodes(found?.media);
  return html`<details class="reply"${isSuccess && html` open`}>
<summary><span class="status ${isSuccess ? "good" : "bad"}">${status}</span> ${
    codes.length > 0 ? codes.map((code) => html`<code>${code}</code> `) : inline(description)
  }</summary>
${codes.length > 0 && prose(description)}
${Object.entries(headers).map(
  ([name, header]) =>
    html`<p class="note">Header <code>${name}</code>${header.description && `: ${header.description}`}</p>`,
)}
${found && found.type !== "application/json" && html`<p class="note"><code>${found.type}</code></p>`}
${found && examplesOf(found.media).map(exampleBlock)}
${lists.length > 0 && html`<details class="members"><summary>Fields</summary>${lists}</details>`}
</details>`;
}

function errorCodes(media: Media | undefined): string[] {
  return (media?.schema?.properties?.error?.enum ?? []).map(String);
}

function examplesOf({ example, examples = {} }: Media): { readonly name: string; readonly value: unknown }[] {
  const named = Object.entries(examples).map(([name, { value }]) => ({ name, value }));
  return example === undefined ? named : [{ name: "", value: example }, ...named];
}

function exampleBlock({ value }: { readonly value: unknown }): Markup {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, isShort(value) ? 0 : 2);
  return html`<pre tabindex="0"><code>${text}</code></pre>`;
}

function isShort(value: unknown): boolean {
  return JSON.stringify(value).length <= 80;
}
