import type { Arguments } from "../args/parse.ts";
import { fit, printable, widthOf } from "../output/printable.ts";
import { Printer } from "../output/printer.ts";
import type { HttpService } from "../service/http.ts";
import { fenceOf, type KeyInUse, type KeyPage, nameOf, pageOfKeys } from "../service/keys.ts";
import { withService } from "./context.ts";

const PAGE = 1_000;
const HEADINGS = ["KEY", "HELD", "WAITING", "LEASE", "HOLDER"];

/** `holdfast ls [PREFIX]`: every key in use, ordered by the bytes of their names. */
export async function main(args: Arguments): Promise<number> {
  return withService(args, async (service) => {
    const { keys, unreachable } = await everyKey(service, args.operands[0] ?? "");
    const printer = new Printer(args.output);
    printer.result({ keys: keys.map(withDecimalFences), unreachable }, table(keys));
    if (unreachable > 0) printer.note(`holdfast: ${unreachable} keys cannot be read: look at the log of the server`);
  });
}

async function everyKey(service: HttpService, prefix: string): Promise<Pick<KeyPage, "keys" | "unreachable">> {
  const keys: KeyInUse[] = [];
  let unreachable = 0;
  let after: string | undefined;
  do {
    const page = await pageOfKeys(service, prefix, PAGE, after);
    keys.push(...page.keys);
    unreachable += page.unreachable;
    after = page.next;
  } while (after !== undefined);
  return { keys, unreachable };
}

/** Fences are decimal in all output of commands. */
export function withDecimalFences(key: KeyInUse): KeyInUse {
  return { ...key, held_by: key.held_by.map((holder) => ({ ...holder, fence: fenceOf(holder.fence) })) };
}

/** Columns as wide as needed; empty if there are no keys. */
export function table(keys: readonly KeyInUse[]): string[] {
  if (keys.length === 0) return [];
  const rows = [HEADINGS, ...keys.map(cellsOf)];
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => widthOf(row[column] ?? ""))));
  return rows.map((row) =>
    row
      .map((cell, column) => fit(cell, widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

function cellsOf({ key, limit, holders, waiters, held_by }: KeyInUse): string[] {
  const leases = held_by.map((holder) => holder.lease_expires_in_s);
  return [
    printable(key),
    `${holders}/${limit}`,
    String(waiters),
    leases.length === 0 ? "-" : `${Math.ceil(Math.min(...leases))} s`,
    printable(held_by.map(nameOf).join(", ")),
  ];
}
