import { html, inline, type Markup } from "./markup.ts";
import { type ApiDocument, type Parameter, resolved, type Schema } from "./model.ts";

interface Field {
  readonly name: string;
  readonly place?: string;
  readonly isRequired: boolean;
  readonly description: string | undefined;
  readonly schema: Schema;
}

/** The parameters of an operation, and where each goes. */
export function parameterList(document: ApiDocument, parameters: readonly Parameter[]): Markup {
  const fields = parameters.map(({ name, in: place, required = false, description, schema }) => ({
    name,
    place,
    isRequired: required,
    description: description ?? schema.description,
    schema,
  }));
  return fieldList(document, fields);
}

/** The members of an object or, for a union, of each of its objects. */
export function memberLists(document: ApiDocument, schema: Schema): Markup[] {
  const { oneOf, properties = {}, required = [] } = resolved(document, schema);
  if (oneOf) return oneOf.flatMap((choice) => memberLists(document, choice));
  const fields = Object.entries(properties).map(([name, property]) => {
    const member = resolved(document, property);
    return { name, isRequired: required.includes(name), description: member.description, schema: member };
  });
  return fields.length === 0 ? [] : [fieldList(document, fields)];
}

function fieldList(document: ApiDocument, fields: readonly Field[]): Markup {
  return html`<dl class="fields">${fields.map((field) => fieldEntry(document, field))}</dl>`;
}

function fieldEntry(document: ApiDocument, { name, place, isRequired, description, schema }: Field): Markup {
  const items = schema.items && resolved(document, schema.items);
  return html`<div><dt><code>${name}</code>${place && html` <span class="place">${place}</span>`}${
    isRequired && html` <span class="required">required</span>`
  }</dt><dd><span class="rule">${rule(schema, items)}</span>${description && html`<p>${inline(description)}</p>`}${
    items?.properties && memberLists(document, items)
  }</dd></div>`;
}

/** The values a field accepts, in a few words. */
function rule(schema: Schema, items: Schema | undefined): string {
  const words = [kind(schema, items)];
  if (schema.enum) words.push(schema.enum.map((value) => JSON.stringify(value)).join(" or "));
  words.push(bounds(schema.minimum, schema.maximum, ""));
  words.push(bounds(schema.minLength, schema.maxLength, " characters"));
  words.push(bounds(schema.minItems, schema.maxItems, " entries"));
  words.push(hexInWords(schema.pattern));
  if (schema.default !== undefined) words.push(`default ${JSON.stringify(schema.default)}`);
  return words.filter((word) => word !== "").join(" · ");
}

/** A pattern in words if that is shorter. Other patterns are left to the field's description. */
function hexInWords(pattern = ""): string {
  const count = /^\^\[0-9a-f\]\{(\d+)\}\$$/.exec(pattern)?.[1];
  return count === undefined ? "" : `${count} lowercase hex digits`;
}

function kind({ type = "value", format }: Schema, items: Schema | undefined): string {
  if (items) return items.enum ? `list of ${items.enum.join(", ")}` : `list of ${items.type ?? "value"}s`;
  return format ? `${type} (${format})` : type;
}

/** Bounds in words. The largest safe integer is no practical bound, so it is left out. */
function bounds(least: number | undefined, most: number | undefined, unit: string): string {
  const top = most === Number.MAX_SAFE_INTEGER ? undefined : most;
  if (least !== undefined && top !== undefined) return `${grouped(least)} to ${grouped(top)}${unit}`;
  if (top !== undefined) return `at most ${grouped(top)}${unit}`;
  return least === undefined ? "" : `at least ${grouped(least)}${unit}`;
}

function grouped(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}
