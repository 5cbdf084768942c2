import type { Context } from "hono";
import type { Principal } from "../../core/auth/principal.ts";
import type { Config } from "../../core/config/config.ts";
import { randomHex } from "../../core/hex.ts";
import type { Bindings } from "../../service.ts";
import type { ErrorCode } from "../reply/errors.ts";
import type { Refusal } from "../sessionless/replies.ts";
import type { Caller } from "./caller.ts";

export interface AppEnv {
  Bindings: Bindings;
  Variables: {
    config: Config;
    caller: Caller;
    /** The caller, on every route that requires authentication. */
    principal: Principal;
    /** The template of the route, or undefined if no route matches the path. */
    template: string | undefined;
    /** The error that was answered, or why the reply shows another holder. */
    error: ErrorCode | Refusal | undefined;
    detail: string | undefined;
    /** See `requestIdOf`. */
    requestId: string | undefined;
    /** The connection now belongs to the host: it counts as 101, whatever the status of the host's response. */
    isUpgraded: true | undefined;
    /** The name of the session that the request uses. */
    session: string | undefined;
  };
}

export type AppContext = Context<AppEnv>;
export type Handler = (context: AppContext) => Response | Promise<Response>;

/** An id that links the log lines of one request. */
export function requestIdOf(context: AppContext): string {
  const id = context.get("requestId") ?? randomHex(8);
  context.set("requestId", id);
  return id;
}
