import type { Stats } from "../../client/index.ts";
import type { Arguments } from "../args/parse.ts";
import { Printer } from "../output/printer.ts";
import { withService } from "./context.ts";

/** `holdfast stats [PREFIX]`: a summary for people, the document of `GET /v1/stats` for programs. */
export async function main(args: Arguments): Promise<number> {
  const [prefix = ""] = args.operands;
  return withService(args, async (service) => {
    const stats = await service.ask<Stats>(`/v1/stats?${new URLSearchParams({ prefix })}`);
    new Printer(args.output).result(stats, summary(stats));
  });
}

function summary({ connections, locks, semaphores, idle_locks, idle_semaphores, ...rest }: Stats): string[] {
  const heldLocks = locks.filter(({ owner_conn_id }) => owner_conn_id !== 0).length;
  const slots = semaphores.reduce((sum, { holders }) => sum + holders, 0);
  const waiters = [...locks, ...semaphores].reduce((sum, key) => sum + key.waiters, 0);
  const rows: [string, number][] = [
    ["connections", connections],
    ["locks held", heldLocks],
    ["semaphores in use", semaphores.length],
    ["slots held", slots],
    ["waiters", waiters],
    ["idle keys", idle_locks.length + idle_semaphores.length],
  ];
  if (rest.unreachable_count) rows.push(["unreadable keys", rest.unreachable_count]);
  const lines = rows.map(([name, count]) => `${name.padEnd(18)} ${count}`);
  return rest.truncated ? [...lines, "there are more keys: these are the first"] : lines;
}
