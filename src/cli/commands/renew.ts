import { LEASE } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { hexIn, leaseIn } from "../args/values.ts";
import { inSession, keyPath } from "../service/sessions.ts";
import { printerOf, sessionIn, urlKeyIn, withService } from "./context.ts";

/** `holdfast renew KEY TOKEN`: the lease starts again from now. Never revives a lock whose lease has ended. */
export async function main(args: Arguments): Promise<number> {
  const [key, session] = [urlKeyIn(args.operands[0]), sessionIn(args)];
  const token = hexIn(args.operands[1] ?? "", "TOKEN");
  const lease = leaseIn(args, LEASE);
  return withService(args, async (service) => {
    const body = { token, ...(lease === undefined ? {} : { lease_ttl_s: lease }) };
    const { remaining_s } = await inSession(service, session, (id) =>
      service.ask<{ remaining_s: number }>(keyPath(key, "/renew"), { method: "POST", session: id, body }),
    );
    printerOf(args).result({ key, lease_s: remaining_s }, [`renewed ${key} for ${remaining_s} s`]);
  });
}
