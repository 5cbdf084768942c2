/**
 * The service itself, its objects able to say how many rows they have written since they woke (SQLite's own count: rows
 * inserted, updated and deleted, the platform's rows for alarms included).
 */

import { allDirectories } from "../../src/cloudflare/calls/directories.ts";
import type { Env } from "../../src/cloudflare/env.ts";
import worker, {
  DirectoryObject as Directory,
  KeyObject as Key,
  SessionObject as Session,
} from "../../src/cloudflare/index.ts";

export {
  HttpSessionObject,
  MetricsObject,
  RateLimitObject,
  RelayObject,
} from "../../src/cloudflare/index.ts";

interface Counted {
  rowsWritten(): Promise<number>;
}

/** Names of the sessions opened so far; nobody else could know them. */
const sessions: string[] = [];

function totalChanges({ storage }: DurableObjectState): number {
  return storage.sql.exec<{ rows: number }>("SELECT total_changes() AS rows").one().rows;
}

export class KeyObject extends Key implements Counted {
  async rowsWritten(): Promise<number> {
    return totalChanges(this.ctx);
  }
}

export class SessionObject extends Session implements Counted {
  override fetch(request: Request): Promise<Response> {
    sessions.push(this.ctx.id.name as string);
    return super.fetch(request);
  }

  async rowsWritten(): Promise<number> {
    return totalChanges(this.ctx);
  }
}

export class DirectoryObject extends Directory implements Counted {
  async rowsWritten(): Promise<number> {
    return totalChanges(this.ctx);
  }
}

async function total(objects: readonly unknown[]): Promise<number> {
  const counts = await Promise.all((objects as Counted[]).map((object) => object.rowsWritten()));
  return counts.reduce((sum, count) => sum + count, 0);
}

export default {
  ...worker,
  async fetch(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname !== "/rows-written") return worker.fetch(request, env, ctx);
    return Response.json({
      key: await total([env.KEY.getByName(searchParams.get("key") ?? "")]),
      session: await total(sessions.map((name) => env.SESSION.getByName(name))),
      directory: await total(allDirectories(env)),
    });
  },
};
