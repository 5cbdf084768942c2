/** A row that takes writes only from the holder with the highest fence it has seen. SQLite here; the statement is standard enough for PostgreSQL. */
import type { DatabaseSync } from "node:sqlite";

export const TABLE = "CREATE TABLE report (name TEXT PRIMARY KEY, body TEXT NOT NULL, fence TEXT NOT NULL)";

/** False if somebody with a higher fence has written before: the lock is lost, and so is this write. */
export function writeReport(db: DatabaseSync, fence: string, name: string, body: string): boolean {
  const { changes } = db
    .prepare(
      `INSERT INTO report (name, body, fence) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET body = excluded.body, fence = excluded.fence
       WHERE report.fence <= excluded.fence`,
    )
    .run(name, body, fence);
  return changes === 1;
}
