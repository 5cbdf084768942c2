/** The parts of an OpenAPI document that the page shows. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
}

export interface Media {
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}
type Content = Readonly<Record<string, Media>>;

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "header" | "query";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
  readonly example?: unknown;
}

export interface Reply {
  readonly description: string;
  readonly headers?: Readonly<Record<string, { readonly description?: string }>>;
  readonly content?: Content;
}

interface Ref {
  readonly $ref: string;
}

export interface OperationDoc {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly security?: readonly object[];
  readonly parameters?: readonly (Parameter | Ref)[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, Reply | Ref>>;
}

export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationDoc>>>>;
  readonly components: object;
}

/** An operation with its method and path. */
export interface ReferenceOperation extends OperationDoc {
  readonly method: string;
  readonly path: string;
}

export function entriesOf(document: ApiDocument): readonly ReferenceOperation[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
}

/** What a reference refers to, or the value itself if it is no reference. */
export function resolved<Value extends object>(document: ApiDocument, value: Value | Ref): Value {
  if (!("$ref" in value) || typeof value.$ref !== "string") return value as Value;
  const steps = value.$ref.split("/").slice(1);
  return steps.reduce<unknown>((place, step) => (place as Record<string, unknown>)[step], document) as Value;
}

/** The first media type and its body: JSON if there are several. */
export function mediaOf(content: Content | undefined): { readonly type: string; readonly media: Media } | undefined {
  const [first] = Object.entries(content ?? {});
  return first && { type: first[0], media: first[1] };
}
