import type { Request } from "../connection/calls.ts";
import { errorOf } from "../errors.ts";
import { soon } from "./acquire.ts";
import type { Host } from "./host.ts";

/** Asks for a document, which the service gives without waiting for anything. Rejects with a `LockError`. */
export async function read<Document>(host: Host, request: Request): Promise<Document> {
  const { status, rest } = await host.ask(request, soon(host));
  if (status !== "ok") throw errorOf(status, { key: request.key ?? request.command, limit: 1 });
  return JSON.parse(rest) as Document;
}
