import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { FileBudget } from "../limits/open-files.ts";

/** An awake object has a database, its log and the log's index open. */
const FILES_PER_OBJECT = 3;
const STEP_MS = 100;
/** The maximum of awake objects is woken in this many steps. */
const STEPS = 16;
const NS_PER_MS = 1_000_000n;
const DATABASE = /^[0-9a-f]{64}\.sqlite$/;

/**
 * When workerd starts, it wakes every object whose alarm is overdue at once (workerd 2026-11), and dies when it reaches
 * its limit of open files: with many keys whose leases ended while it was down, it would die again and again. So if
 * there are more objects than it can have open, their alarms are deferred one after another before it starts. An object
 * that is woken finds its own, earlier time stored and does what is due. Returns how many alarms were deferred.
 */
export async function spreadOverdueAlarms(
  objects: string,
  { openFiles, awakeKeys }: Pick<FileBudget, "openFiles" | "awakeKeys">,
  now = Date.now(),
): Promise<number> {
  const folders = existsSync(objects) ? readdirSync(objects).map((name) => join(objects, name)) : [];
  const stored = folders.flatMap((folder) => readdirSync(folder).filter((name) => DATABASE.test(name))).length;
  if (stored * FILES_PER_OBJECT < openFiles / 2) return 0;
  // Imported only here, because Node prints an experimental warning on standard error.
  const { DatabaseSync } = await import("node:sqlite");
  const perStep = Math.max(1, Math.floor(awakeKeys / STEPS));
  let put = 0;
  for (const folder of folders) {
    const path = join(folder, "metadata.sqlite");
    if (!existsSync(path)) continue;
    const database = new DatabaseSync(path, { timeout: 1_000 });
    try {
      const find = database.prepare(
        "SELECT actor_id AS id FROM _cf_ALARM WHERE scheduled_time <= ? ORDER BY scheduled_time",
      );
      const overdue = find.all(BigInt(now) * NS_PER_MS) as { id: string }[];
      const move = database.prepare("UPDATE _cf_ALARM SET scheduled_time = ? WHERE actor_id = ?");
      database.exec("BEGIN");
      for (const { id } of overdue) {
        const at = now + STEP_MS * Math.floor(put / perStep);
        move.run(BigInt(at) * NS_PER_MS, id);
        put += 1;
      }
      database.exec("COMMIT");
    } finally {
      database.close();
    }
  }
  return put;
}
