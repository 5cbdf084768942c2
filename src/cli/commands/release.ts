import type { Arguments } from "../args/parse.ts";
import { hexIn, keyIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { printable } from "../output/printable.ts";
import { Printer } from "../output/printer.ts";
import { endSession, keyPath } from "../service/sessions.ts";
import { targetOf } from "../service/target.ts";
import { sessionIn, urlKeyIn, withService } from "./context.ts";

/** `holdfast release KEY TOKEN`, or `holdfast release --session ID` for everything a session has. */
export async function main(args: Arguments): Promise<number> {
  const session = sessionIn(args);
  const printer = new Printer(args.output);
  const [keyText, tokenText] = args.operands;
  if (keyText === undefined) {
    if (session === undefined) throw new UsageError("KEY and TOKEN are missing, or --session");
    return withService(args, async (service) => {
      await endSession(service, session);
      printer.result({ session }, [`ended session ${session}`]);
    });
  }
  const key = session === undefined ? keyIn(keyText, "KEY") : urlKeyIn(keyText);
  if (tokenText === undefined) throw new UsageError("TOKEN is missing");
  const token = hexIn(tokenText, "TOKEN");
  if (session === undefined) {
    const { askByToken } = await import("../service/by-token.ts");
    await askByToken(await targetOf(args, process.env), { command: "r", key, arg: token });
  } else {
    const question = { method: "POST", session, body: { token } } as const;
    await withService(args, (service) => service.ask(keyPath(key, "/release"), question));
  }
  printer.result({ key }, [`released ${printable(key)}`]);
  return 0;
}
