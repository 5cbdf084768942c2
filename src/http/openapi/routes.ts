import { createRoute } from "@hono/zod-openapi";
import { consoleOperations } from "./routes/console.ts";
import { fileOperations } from "./routes/files.ts";
import { godistlockOperations } from "./routes/godistlock.ts";
import { introspectionOperations } from "./routes/introspection.ts";
import { lockOperations, semaphoreOperations } from "./routes/keys.ts";
import type { ApiOperation } from "./routes/operation.ts";
import { adminOperations, ticketOperations } from "./routes/operators.ts";
import { sessionOperations } from "./routes/sessions.ts";
import { terraformOperations } from "./routes/terraform.ts";

/** Every operation of the HTTP API, by operationId. The router and the OpenAPI document are built from this table. */
export const OPERATIONS = {
  ...consoleOperations,
  ...introspectionOperations,
  ...godistlockOperations,
  ...sessionOperations,
  ...lockOperations,
  ...semaphoreOperations,
  ...fileOperations,
  ...terraformOperations,
  ...ticketOperations,
  ...adminOperations,
};

export type OperationId = keyof typeof OPERATIONS;

export interface Route {
  readonly operationId: OperationId;
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** As the document and the metrics name it, with `{key}`. */
  readonly path: string;
  /** The same as the router takes it, with `:key`. */
  readonly honoPath: string;
}

/** Methods that OpenAPI cannot name, and the operations they stand for. */
export const UNNAMED_METHODS = [
  { method: "LOCK", operationId: "lockTerraform" },
  { method: "UNLOCK", operationId: "unlockTerraform" },
] as const satisfies readonly { readonly method: string; readonly operationId: OperationId }[];

/** Exactly what the router must serve, besides HEAD, OPTIONS and the methods that OpenAPI cannot name. */
export const ROUTES: readonly Route[] = Object.entries<ApiOperation>(OPERATIONS).map(([operationId, operation]) => ({
  operationId: operationId as OperationId,
  method: operation.method.toUpperCase() as Route["method"],
  path: operation.path,
  honoPath: createRoute(operation).getRoutingPath(),
}));
