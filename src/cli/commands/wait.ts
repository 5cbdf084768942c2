import { MAX_SECONDS } from "../../client/wire.ts";
import { LIMIT, SESSION, TIMEOUT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, secondsIn } from "../args/values.ts";
import { CommandError, UsageError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { keyPath } from "../service/sessions.ts";
import { type GrantReply, grantDocument, grantLines, sessionIn, urlKeyIn, withService } from "./context.ts";

type Waited = ({ readonly status: "ok" } & GrantReply) | { readonly status: "timeout" };

/**
 * `holdfast wait KEY --session ID`: returns once the session holds the lock. A wait that times out gives up the place.
 */
export async function main(args: Arguments): Promise<number> {
  const [key, session] = [urlKeyIn(args.operands[0]), sessionIn(args)];
  if (session === undefined) throw new UsageError(`${SESSION.name} is missing: enqueue prints it`);
  // The server takes whole seconds; round up, so that no wait is shorter than asked for.
  const timeoutSeconds = Math.ceil(secondsIn(args, TIMEOUT) ?? MAX_SECONDS);
  const limit = countIn(args, LIMIT) ?? 1;
  return withService(args, async (service) => {
    const question = {
      method: "POST",
      session,
      body: { timeout_s: timeoutSeconds },
      waitMs: timeoutSeconds * 1000,
    } as const;
    const reply = await service.ask<Waited>(keyPath(key, "/wait", limit), question);
    if (reply.status !== "ok") throw new CommandError("busy", `busy ${key}: the place is given up`, { isReport: true });
    new Printer(args.output).result({ ...grantDocument(key, reply), session }, grantLines(reply));
  });
}
