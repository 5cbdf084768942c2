import { OPERATIONS, TTL } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { countIn, keyIn } from "../args/values.ts";
import { UsageError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { withService } from "./context.ts";

const KNOWN = ["lock", "semaphore", "stats"];
const MAX_TTL_SECONDS = 86_400;

interface Issued {
  readonly ticket: string;
  readonly expires_in_s: number;
}

/** `holdfast ticket KEY…`: prints a ticket and nothing else. */
export async function main(args: Arguments): Promise<number> {
  const operations = [...new Set((args.text(OPERATIONS) ?? "lock").split(","))];
  if (!operations.every((each) => KNOWN.includes(each))) {
    throw new UsageError(`${OPERATIONS.name} must be some of ${KNOWN.join(", ")}, with commas between`);
  }
  const keys = args.operands.map((key) => keyIn(key, "KEY"));
  const ttl = countIn(args, TTL, MAX_TTL_SECONDS);
  return withService(args, async (service) => {
    const body = { keys, operations, ...(ttl === undefined ? {} : { ttl_s: ttl }) };
    const { ticket, expires_in_s } = await service.ask<Issued>("/v1/tickets", { method: "POST", body });
    new Printer(args.output).result({ ticket, expires_in_s }, [ticket]);
  });
}
