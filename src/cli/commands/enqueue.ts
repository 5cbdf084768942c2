import { LABEL, LEASE, LIMIT } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, labelIn, leaseIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { lastingLabel } from "../service/label.ts";
import { endSession, keyPath, openSession } from "../service/sessions.ts";
import { type GrantReply, grantDocument, grantLines, sessionIn, urlKeyIn, withService } from "./context.ts";

type Enqueued = ({ readonly status: "acquired" } & GrantReply) | { readonly status: "queued" };

/** `holdfast enqueue KEY`: takes a place in the queue for a session that outlives this process. */
export async function main(args: Arguments): Promise<number> {
  const [key, named] = [urlKeyIn(args.operands[0]), sessionIn(args)];
  const [limit, lease] = [countIn(args, LIMIT) ?? 1, leaseIn(args, LEASE)];
  const label = labelIn(args, LABEL) ?? lastingLabel();
  if (!/^[\x20-\x7e]+$/.test(label)) throw new UsageError("--label must be ASCII here");
  return withService(args, async (service) => {
    const session = named ?? (await openSession(service, label));
    const body = { ...(limit === 1 ? {} : { limit }), ...(lease === undefined ? {} : { lease_ttl_s: lease }) };
    try {
      const reply = await service.ask<Enqueued>(keyPath(key, "/enqueue", limit), { method: "POST", session, body });
      const grant = reply.status === "acquired" ? reply : undefined;
      new Printer(args.output).result(
        { state: reply.status, ...(grant ? grantDocument(key, grant) : { key }), session },
        [`state=${reply.status}`, `session=${session}`, ...(grant ? grantLines(grant) : [])],
      );
    } catch (error) {
      // The session id was never printed.
      if (named === undefined) await endSession(service, session).catch(() => {});
      throw error;
    }
  });
}
