/** What the OpenAPI document says about values: the judge of its own examples and of the service's replies. */
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { openApiDocument } from "../../src/http/openapi/document.ts";
import { entriesOf, type Reply, resolved } from "../../src/http/openapi/reference/model.ts";

export const document = JSON.parse(openApiDocument());

export const ajv = new Ajv2020({ strict: true, allErrors: true });
addFormats.default(ajv);
// Words of OpenAPI that say nothing about validity: those of the document itself, in which the schemas stand.
ajv.addVocabulary(["discriminator", ...Object.keys(document)]);
ajv.addSchema(document, "document", undefined, false);

/** What is wrong with a value, by the schema at this place of the document; nothing when it fits. */
export function judge(pointer: string, value: unknown): unknown[] {
  const validate = ajv.getSchema(`document#${pointer}`);
  if (!validate) throw new Error(`no schema at ${pointer}`);
  return validate(value) ? [] : (validate.errors ?? []);
}

/** One step of a pointer, written so that slashes and blanks in it do no harm. */
export function step(name: string | number): string {
  return encodeURIComponent(String(name).replaceAll("~", "~0").replaceAll("/", "~1"));
}

/**
 * What is wrong with a reply of the service to this operation; nothing when the document foresees it. `undefined` stands
 * for requests that no operation takes (404, 405).
 */
export async function judgeReply(operationId: string | undefined, reply: Response): Promise<unknown[]> {
  const found = place(operationId, reply.status);
  if (found === undefined) return [`${operationId} does not foresee status ${reply.status}`];
  const { headers = {}, content = {} } = found.reply;
  const missing = Object.entries(headers as Record<string, { required?: boolean }>)
    .filter(([name, { required }]) => required && !reply.headers.has(name))
    .map(([name]) => `header ${name} is missing`);
  const text = await reply.clone().text();
  const type = reply.headers.get("Content-Type")?.split(";")[0]?.trim();
  if (Object.keys(content).length === 0) return text === "" ? missing : [...missing, "a body that is not foreseen"];
  if (type === undefined || !(type in content)) return [...missing, `content type ${type} is not foreseen`];
  const value = type === "application/json" ? JSON.parse(text) : text;
  return [...missing, ...judge(`${found.pointer}/content/${step(type)}/schema`, value)];
}

function place(operationId: string | undefined, status: number): { pointer: string; reply: Reply } | undefined {
  if (operationId === undefined) {
    const name = status === 405 ? "MethodNotAllowed" : "NotFound";
    return { pointer: `/components/responses/${name}`, reply: document.components.responses[name] };
  }
  const entry = entriesOf(document).find((candidate) => candidate.operationId === operationId);
  const reply = entry?.responses[status];
  if (entry === undefined || reply === undefined) return undefined;
  const own = `/paths/${step(entry.path)}/${entry.method.toLowerCase()}/responses/${status}`;
  return { pointer: "$ref" in reply ? reply.$ref.slice(1) : own, reply: resolved<Reply>(document, reply) };
}
