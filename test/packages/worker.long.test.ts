/** Workers that use the packages as users get them: checked against the types that come with them, and built by wrangler. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EmptyFolder, packAll, packed, ROOT } from "./support.ts";

const CONFIG = `
name = "mine"
main = "own.ts"
compatibility_date = "2026-11-04"

[[durable_objects.bindings]]
name = "LOCK_KEY"
class_name = "LockKey"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["LockKey"]
`;

/** `LockKey`, and a service binding with the same calls. */
const OWN = `
import { type AcquiredLock, type KeyDetail, LockKey, locks, type OwnLock, type OwnLocks } from "holdfast/durable-object";
import type { LocksBinding } from "holdfast/worker";

export { LockKey };

interface Env {
  readonly LOCK_KEY: DurableObjectNamespace<LockKey>;
  readonly LOCKS: Fetcher & LocksBinding;
}

export default {
  async fetch(_request, env) {
    const own: OwnLocks = locks(env.LOCK_KEY, { locationHint: "weur" });
    await using lock = await own.acquire("deploy", { timeout: 5_000, limit: 2, label: "mine" });
    if (!lock) return new Response("busy", { status: 503 });
    const renewed = await lock.renew({ lease: 60_000 });
    const seen: KeyDetail | null = await own.describe(lock.key);
    const length: number = await locks(env.LOCKS).request("deploy", {}, (held) => held.fence.length);
    const plain: AcquiredLock | null = await env.LOCKS.acquire("deploy");
    const fence = await env.LOCKS.request("deploy", { timeout: 0 }, async (held) => held.fence);
    // @ts-expect-error: there is no such option
    await own.acquire("deploy", { ttl: 5 });
    // @ts-expect-error: what the binding returns has no methods
    await plain?.release();
    return Response.json([renewed?.remaining, seen?.holders, length, plain?.token, fence.length, await kept(lock)]);
  },
} satisfies ExportedHandler<Env>;

async function kept(lock: OwnLock): Promise<boolean> {
  return lock.release();
}
`;

/** The whole service under a path, and a client of it. */
const WHOLE = `
import holdfast, { Locks } from "holdfast/worker";
import { connect } from "holdfast-client";

export * from "holdfast/worker";

export class Mine extends Locks {}

interface Env {
  readonly LOCKS: Fetcher;
}

export default {
  async fetch(request, env, ctx) {
    if (new URL(request.url).pathname.startsWith("/locks")) return holdfast.fetch(request, env, ctx);
    const client = connect(env.LOCKS, { label: "site" });
    const fence: string = await client.request("page", { sticky: true, timeout: 5_000 }, (lock) => lock.fence);
    await client.close();
    return new Response(fence);
  },
} satisfies ExportedHandler<Env>;
`;

describe("a Worker with holdfast and holdfast-client, packed and installed in an empty folder,", () => {
  let folder: EmptyFolder;
  beforeAll(async () => {
    packAll();
    folder = new EmptyFolder();
    for (const name of ["holdfast", "holdfast-client"] as const) await folder.install(packed(name));
    folder.write("own.ts", OWN);
    folder.write("whole.ts", WHOLE);
    folder.write("wrangler.toml", CONFIG);
  });
  afterAll(() => folder[Symbol.dispose]());

  it.each(["bundler", "nodenext"])("agrees with their types, whole and under %s", async (moduleResolution) => {
    const compilerOptions = {
      moduleResolution,
      module: moduleResolution === "bundler" ? "esnext" : "nodenext",
      target: "es2022",
      lib: ["es2024", "esnext.disposable"],
      types: [join(ROOT, "node_modules/@cloudflare/workers-types")],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
    };
    folder.write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["own.ts", "whole.ts"] }));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    // It prints what is wrong, and nothing else.
    expect(await folder.run(process.execPath, [tsc, "-p", "."]).catch(({ stdout }) => stdout)).toBe("");
  });

  it("is built by wrangler, with the class and no more than that", async () => {
    const wrangler = join(ROOT, "node_modules/wrangler/bin/wrangler.js");
    const printed = await folder.run(process.execPath, [wrangler, "deploy", "--dry-run", "--outdir", "built"]);
    expect(printed).toContain("env.LOCK_KEY (LockKey)");
    const gzipped = Number(/gzip: ([\d.]+) KiB/.exec(printed)?.[1]);
    expect(gzipped).toBeGreaterThan(10);
    // docs/workers.md says how much: wrangler adds the names of all functions.
    expect(gzipped).toBeLessThan(44);
  });
});
