import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { type RunningWorkerd, startWorkerd } from "../src/cli/server.ts";

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export const WORKERS = {
  /** The service as it is delivered; `npm run bench` builds it first. */
  holdfast: { built: pathOf("../dist/worker.js") },
  floor: { source: pathOf("floor/worker.ts") },
  counted: { source: pathOf("floor/counted.ts") },
} as const;

type WorkerFile = { readonly built: string } | { readonly source: string };

/** Everything that has to be gone at the end: processes and their data, all in one temporary folder. */
export class Lab {
  readonly #folder = mkdtempSync(join(tmpdir(), "holdfast-bench-"));
  readonly #running: Promise<RunningWorkerd>[] = [];
  #isClosed = false;

  get folder(): string {
    return this.#folder;
  }

  /** Starts a Worker in a workerd of its own, on free ports and an empty disk. */
  async start(name: keyof typeof WORKERS): Promise<RunningWorkerd> {
    const worker = await this.#bundle(name, WORKERS[name]);
    if (this.#isClosed) throw new Error("the benchmark was stopped");
    const starting = startWorkerd({
      worker,
      dataDir: join(this.#folder, name),
      host: "127.0.0.1",
      tcpPort: 0,
      httpPort: 0,
      variables: {},
      log: (text) => process.stderr.write(`[${name}] ${text}`),
    });
    this.#running.push(starting);
    const running = await starting;
    let isWanted = true;
    void running.exited.then(({ code, signal }) => {
      const isNews = isWanted && !this.#isClosed;
      if (isNews) process.stderr.write(`[${name}] workerd ended by itself: ${signal ?? `exit code ${code}`}\n`);
    });
    return {
      ...running,
      kill() {
        isWanted = false;
        return running.kill();
      },
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const result of await Promise.allSettled(this.#running)) {
      if (result.status === "fulfilled") await result.value.kill();
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #bundle(name: string, worker: WorkerFile): Promise<string> {
    if ("built" in worker) return worker.built;
    const outfile = join(this.#folder, `${name}.js`);
    await build({
      entryPoints: [worker.source],
      outfile,
      bundle: true,
      format: "esm",
      target: "es2024",
      platform: "neutral",
      mainFields: ["module", "main"],
      conditions: ["workerd", "worker", "browser"],
      external: ["cloudflare:*", "node:*"],
    });
    return outfile;
  }
}
