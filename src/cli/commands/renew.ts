import { LEASE } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { hexIn, keyIn, leaseIn } from "../args/values.ts";
import { printable } from "../output/printable.ts";
import { Printer } from "../output/printer.ts";
import { keyPath } from "../service/sessions.ts";
import { targetOf } from "../service/target.ts";
import { sessionIn, urlKeyIn, withService } from "./context.ts";

/** `holdfast renew KEY TOKEN`: restarts the lease. Never revives a lock whose lease has ended. */
export async function main(args: Arguments): Promise<number> {
  const session = sessionIn(args);
  const [keyText = "", tokenText = ""] = args.operands;
  const key = session === undefined ? keyIn(keyText, "KEY") : urlKeyIn(keyText);
  const token = hexIn(tokenText, "TOKEN");
  const lease = leaseIn(args, LEASE);
  const seconds =
    session === undefined
      ? await renewByToken(args, key, token, lease)
      : await renewIn(session, args, key, token, lease);
  new Printer(args.output).result({ key, lease_s: seconds }, [`renewed ${printable(key)} for ${seconds} s`]);
  return 0;
}

async function renewByToken(args: Arguments, key: string, token: string, lease: number | undefined): Promise<number> {
  const { askByToken } = await import("../service/by-token.ts");
  const arg = lease === undefined ? token : `${token} ${lease}`;
  return Number(await askByToken(await targetOf(args, process.env), { command: "n", key, arg }));
}

/** Also counts as a use of the session. */
async function renewIn(
  session: string,
  args: Arguments,
  key: string,
  token: string,
  lease: number | undefined,
): Promise<number> {
  const body = { token, ...(lease === undefined ? {} : { lease_ttl_s: lease }) };
  let seconds = 0;
  await withService(args, async (service) => {
    const question = { method: "POST", session, body } as const;
    seconds = (await service.ask<{ remaining_s: number }>(keyPath(key, "/renew"), question)).remaining_s;
  });
  return seconds;
}
