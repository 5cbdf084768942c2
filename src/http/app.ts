import { Hono } from "hono";
import { deleteFile, getFile, putFile } from "./files/handlers.ts";
import { getBackup, removeHolder } from "./handlers/admin.ts";
import { getConsole, getConsoleScript, getConsoleStyle } from "./handlers/console.ts";
import { openGodistlock } from "./handlers/godistlock.ts";
import { getKey, getMetrics, getOpenAPI, getReference, getRelay, getStats } from "./handlers/introspection.ts";
import { keyOperation } from "./handlers/locks.ts";
import { openRelay } from "./handlers/relay.ts";
import { createSession, deleteSession, pingSession } from "./handlers/sessions.ts";
import { createTicket } from "./handlers/ticketing.ts";
import { upgrade } from "./handlers/upgrade.ts";
import { authorize, configure, failed, limitRate, observe } from "./middleware/checks.ts";
import { cors } from "./middleware/cors.ts";
import { checkHost } from "./middleware/hosts.ts";
import { getHealth, getReady } from "./middleware/probes.ts";
import { type OperationId, ROUTES, UNNAMED_METHODS } from "./openapi/routes.ts";
import { echoed, fail, methodNotAllowed } from "./reply/errors.ts";
import type { AppEnv, Handler } from "./request/context.ts";
import { rawPath } from "./request/path.ts";
import { getTerraformLock, lockTerraform, unlockTerraform } from "./terraform/handlers.ts";

const HANDLERS: Readonly<Record<OperationId, Handler>> = {
  getConsole,
  getConsoleScript,
  getConsoleStyle,
  getHealth,
  getReady,
  getMetrics,
  getOpenAPI,
  getReference,
  getStats,
  getKey,
  getRelay,
  openWebSocket: upgrade,
  openGodistlock,
  openRelay,
  createSession,
  deleteSession,
  pingSession,
  acquireLock: keyOperation("acquireLock"),
  releaseLock: keyOperation("releaseLock"),
  renewLock: keyOperation("renewLock"),
  enqueueLock: keyOperation("enqueueLock"),
  waitLock: keyOperation("waitLock"),
  acquireSem: keyOperation("acquireSem"),
  releaseSem: keyOperation("releaseSem"),
  renewSem: keyOperation("renewSem"),
  enqueueSem: keyOperation("enqueueSem"),
  waitSem: keyOperation("waitSem"),
  getFile,
  putFile,
  deleteFile,
  getTerraformLock,
  lockTerraform,
  putTerraformLock: lockTerraform,
  unlockTerraform,
  createTicket,
  getBackup,
  removeHolder,
};

/** The HTTP side of the service. Paths are matched as sent; the first check that fails answers. */
export const app = new Hono<AppEnv>({ strict: true, getPath: rawPath });

app.use(configure, checkHost, cors, observe, limitRate, authorize);
const served = ROUTES.flatMap((route) => {
  const unnamed = UNNAMED_METHODS.filter(({ operationId }) => operationId === route.operationId);
  return [route, ...unnamed.map(({ method }) => ({ ...route, method }))];
});
for (const { operationId, method, honoPath } of served) app.on(method, honoPath, HANDLERS[operationId]);
for (const { honoPath } of ROUTES) {
  const methods = served.filter((route) => route.honoPath === honoPath).map(({ method }) => method);
  const allow = methods.map((method) => (method === "GET" ? "GET, HEAD" : method)).join(", ");
  app.all(honoPath, (context) => methodNotAllowed(context, allow));
}
app.notFound((context) => {
  const reply = fail(
    context,
    "not_found",
    `there is nothing at ${echoed(context.req.path)}; ${context.env.mount ?? ""}/docs lists all routes`,
  );
  // For the client only: a path may hold a key, and the log names none.
  context.set("detail", undefined);
  return reply;
});
app.onError(failed);
