import type { Request } from "../connection/calls.ts";
import { errorOf } from "../errors.ts";
import { answerLimits } from "./acquire.ts";
import type { ClientContext } from "./client-context.ts";

/** Asks the service for a document. Rejects with a `LockError`. */
export async function read<Document>(client: ClientContext, request: Request): Promise<Document> {
  const { status, rest } = await client.ask(request, answerLimits(client));
  if (status !== "ok") throw errorOf(status, { key: request.key ?? request.command, limit: 1 });
  return JSON.parse(rest) as Document;
}
