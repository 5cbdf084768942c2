import { closeSync, openSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

/** A lock as the published protocol describes it, and other tools have it: exclusive creation, then the text. Nothing is taken over. */
export class SeedLock {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  tryAcquire(): boolean {
    let file: number;
    try {
      file = openSync(this.#path, "wx", 0o644);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
    writeFileSync(file, `pid=${process.pid}\ntimestamp=${Math.floor(Date.now() / 1000)}\n`);
    closeSync(file);
    return true;
  }

  async acquire(): Promise<void> {
    while (!this.tryAcquire()) await pause(1 + Math.random() * 4);
  }

  release(): void {
    unlinkSync(this.#path);
  }
}

/** The protocol's example of a reader, line for line: lines with `=`, stripped, split once; later lines replace earlier ones. */
export function readLikeTheSeed(path: string): Record<string, string> {
  const info: Record<string, string> = {};
  for (const line of readFileSync(path, "utf8").split(/\r\n|\r|\n/)) {
    if (!line.includes("=")) continue;
    const [key = "", ...rest] = line.trim().split("=");
    info[key] = rest.join("=");
  }
  return info;
}
