import { json } from "../reply/errors.ts";
import type { AppContext } from "../request/context.ts";

export function getHealth(context: AppContext): Response {
  return json(context, { status: "ok" });
}

export async function getReady(context: AppContext): Promise<Response> {
  const { service } = context.env;
  if (!service.config.ok) return json(context, { status: "misconfigured" }, 503);
  if (service.config.config.draining) return json(context, { status: "draining" }, 503);
  return (await service.isReady()) ? json(context, { status: "ok" }) : json(context, { status: "unavailable" }, 503);
}
