import { createRoute, OpenAPIHono } from "@hono/zod-openapi";
import { VERSION } from "../../version.ts";
import { failureComponents, failures } from "./routes/failures.ts";
import { type ApiOperation, TAGS } from "./routes/operation.ts";
import { OPERATIONS } from "./routes.ts";
import { keyPath, labelHeader, namePath, sessionHeader, sessionIdPath } from "./schemas.ts";

const ABOUT = `Locks and semaphores over HTTP.

Create a session, then acquire in its name: \`POST /v1/sessions\`, then \`POST /v1/locks/{key}\` with header \`X-Dflockd-Session\`. What a session holds is released when its lease ends, when it is released with its token, or when the session ends.

Programs that cannot keep a session alive take locks without one, as lock files (\`/v1/files/{name}\`), and Terraform and OpenTofu under \`/v1/terraform/{name}\`. Names there are keys: all stand in one queue.

Request bodies are, but for files, one JSON object in UTF-8, at most 1,048,576 bytes, whatever the \`Content-Type\`. Fields that are not listed are refused. Integers are written without fraction and exponent. A field that is \`null\` counts as absent, and \`null\` as body counts as \`{}\`.

Errors are \`{"error":"<code>"}\`, most with a \`detail\` for people. Only the code is stable. Unknown paths answer 404 \`not_found\`, other methods on a known path 405 \`method_not_allowed\` with \`Allow\`. \`HEAD\` works wherever \`GET\` does.`;

const PARAMETERS = {
  KeyPath: keyPath,
  NamePath: namePath,
  SessionIdPath: sessionIdPath,
  SessionHeader: sessionHeader,
  LabelHeader: labelHeader,
};

/** Answered before the route is known. */
const OF_EVERY_OPERATION = failures("HostForbidden");

export type OpenApi = ReturnType<OpenAPIHono["getOpenAPI31Document"]>;

type Components = NonNullable<OpenApi["components"]>;

let built: { readonly document: OpenApi; readonly text: string } | undefined;

/** The OpenAPI document, built from the table of operations on first use. */
export function openApi(): OpenApi {
  return once().document;
}

/** The OpenAPI document as served and as kept in the repository: compact JSON and a line feed. */
export function openApiDocument(mount = ""): string {
  const { document, text } = once();
  return mount === "" ? text : textOf({ ...document, servers: [{ url: mount }] });
}

function textOf(document: OpenApi): string {
  return `${JSON.stringify(document)}\n`;
}

function once() {
  if (built === undefined) {
    const document = build();
    built = { document, text: textOf(document) };
  }
  return built;
}

function build(): OpenApi {
  const generator = new OpenAPIHono();
  const registry = generator.openAPIRegistry;
  registry.registerComponent("securitySchemes", "bearerAuth", {
    type: "http",
    scheme: "bearer",
    description: "The service's token, where one is set, or a ticket of `createTicket`.",
  });
  registry.registerComponent("securitySchemes", "basicAuth", {
    type: "http",
    scheme: "basic",
    description: "Any user name; the password is the service's token or a ticket. Only where an operation says so.",
  });
  for (const { name, component } of failureComponents()) registry.registerComponent("responses", name, component);
  for (const [name, schema] of Object.entries(PARAMETERS)) registry.registerParameter(name, schema);
  for (const [operationId, operation] of Object.entries<ApiOperation>(OPERATIONS)) {
    const responses = { ...operation.responses, ...OF_EVERY_OPERATION };
    registry.registerPath(createRoute({ ...operation, operationId, responses }));
  }
  const { openapi, info, servers, security, tags, paths, components } = generator.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "holdfast",
      version: VERSION,
      description: ABOUT,
      license: { name: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{ bearerAuth: [] }],
    tags: TAGS.map((tag) => ({ ...tag })),
  });
  return { openapi, info, servers, security, tags, paths, components: withWholeParameters(components) } as OpenApi;
}

/**
 * Moves schemas back into their parameters: the generator puts the schema of a shared parameter elsewhere, under the
 * same name, where readers would not look for it.
 */
function withWholeParameters({ parameters = {}, schemas = {}, ...others }: Components = {}): Components {
  const whole = Object.entries(parameters).map(([name, parameter]) => [name, { ...parameter, schema: schemas[name] }]);
  const rest = Object.entries(schemas).filter(([name]) => !(name in parameters));
  return { ...others, schemas: Object.fromEntries(rest), parameters: Object.fromEntries(whole) };
}
