import { expect, it } from "vitest";
import { app } from "../../src/http/app.ts";
import { openApi } from "../../src/http/openapi/document.ts";
import { ROUTES, UNNAMED_METHODS } from "../../src/http/openapi/routes.ts";

/** Method and path of everything the router serves by name; what it does with all methods alike is no route. */
const served = app.routes
  .filter(({ method }) => method !== "ALL")
  .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, "{$1}")}`);

const documented = Object.entries(openApi().paths ?? {}).flatMap(([path, operations]) =>
  Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
);

/** Methods that the document cannot name. */
const unnamed = UNNAMED_METHODS.map(({ method, operationId }) => {
  return `${method} ${ROUTES.find((route) => route.operationId === operationId)?.path}`;
});

it("the router serves what the document describes, and nothing else", () => {
  expect(served.length).toBeGreaterThan(20);
  expect([...served].sort()).toEqual([...documented, ...unnamed].sort());
});

it("every path that is served refuses other methods by name", () => {
  const refusing = app.routes.filter(({ method, path }) => method === "ALL" && path !== "/*").map(({ path }) => path);
  const paths = app.routes.filter(({ method }) => method !== "ALL").map(({ path }) => path);
  expect(new Set(refusing)).toEqual(new Set(paths));
});
