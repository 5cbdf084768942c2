import { createRoute } from "@hono/zod-openapi";
import { consoleOperations } from "./routes/console.ts";
import { introspectionOperations } from "./routes/introspection.ts";
import { lockOperations, semaphoreOperations } from "./routes/keys.ts";
import type { Operation } from "./routes/operation.ts";
import { adminOperations, ticketOperations } from "./routes/operators.ts";
import { sessionOperations } from "./routes/sessions.ts";

/** Every operation of the HTTP API, by operationId. Router and OpenAPI document are made from this table. */
export const OPERATIONS = {
  ...consoleOperations,
  ...introspectionOperations,
  ...sessionOperations,
  ...lockOperations,
  ...semaphoreOperations,
  ...ticketOperations,
  ...adminOperations,
};

export type OperationId = keyof typeof OPERATIONS;

export interface Route {
  readonly operationId: OperationId;
  readonly method: "GET" | "POST" | "DELETE";
  /** As the document and the metrics name it, with `{key}`. */
  readonly path: string;
  /** The same as the router takes it, with `:key`. */
  readonly honoPath: string;
}

/** What the router must serve, no more and no less (besides HEAD and OPTIONS). */
export const ROUTES: readonly Route[] = Object.entries<Operation>(OPERATIONS).map(([operationId, operation]) => ({
  operationId: operationId as OperationId,
  method: operation.method.toUpperCase() as Route["method"],
  path: operation.path,
  honoPath: createRoute(operation).getRoutingPath(),
}));
