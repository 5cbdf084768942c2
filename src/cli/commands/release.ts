import type { Arguments } from "../args/parse.ts";
import { hexIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { endSession, inSession, keyPath } from "../service/sessions.ts";
import { printerOf, sessionIn, urlKeyIn, withService } from "./context.ts";

/** `holdfast release KEY TOKEN`, or `holdfast release --session ID` for everything a session has. */
export async function main(args: Arguments): Promise<number> {
  const session = sessionIn(args);
  const printer = printerOf(args);
  const [keyText, tokenText] = args.operands;
  if (keyText === undefined) {
    if (session === undefined) throw new UsageError("KEY and TOKEN are missing, or --session");
    return withService(args, async (service) => {
      await endSession(service, session);
      printer.result({ session }, [`ended session ${session}`]);
    });
  }
  const key = urlKeyIn(keyText);
  if (tokenText === undefined) throw new UsageError("TOKEN is missing");
  const token = hexIn(tokenText, "TOKEN");
  return withService(args, async (service) => {
    await inSession(service, session, (id) =>
      service.ask(keyPath(key, "/release"), { method: "POST", session: id, body: { token } }),
    );
    printer.result({ key }, [`released ${key}`]);
  });
}
