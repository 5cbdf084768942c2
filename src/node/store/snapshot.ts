import { closeSync, fstatSync, openSync, read, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Snapshot } from "./store.ts";

const readPiece = promisify(read);
const PIECE_BYTES = 65_536;

/** A new, empty file beside the database, for this user alone: a copy holds tokens. */
export function makeCopyFile(databasePath: string, name: string): string {
  const path = `${prefixOf(databasePath)}${name}`;
  closeSync(openSync(path, "wx", 0o600));
  return path;
}

/** Removes copies that an earlier process has not finished. Only for the process that has locked the database. */
export function removeUnfinishedCopies(databasePath: string): void {
  const directory = dirname(databasePath);
  const prefix = basename(prefixOf(databasePath));
  for (const name of readdirSync(directory)) if (name.startsWith(prefix)) rmSync(join(directory, name));
}

const prefixOf = (databasePath: string) => `${databasePath}-copy-`;

/** A finished copy. Its name is gone once it is open, so that it takes no room when it is closed, whatever ends the process. */
export class CopyReader implements Snapshot {
  readonly status = "taken";
  readonly bytes: number;
  readonly content: ReadableStream<Uint8Array>;
  readonly #descriptor: number;
  readonly #closed: () => void;
  #reading: Promise<unknown> = Promise.resolve();
  #isClosed = false;

  constructor(path: string, closed: () => void) {
    this.#closed = closed;
    this.#descriptor = openSync(path, "r");
    rmSync(path);
    this.bytes = fstatSync(this.#descriptor).size;
    // Without a high-water mark of 0, pieces would be read before anyone asks for them.
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) => this.#pull(controller);
    this.content = new ReadableStream({ pull, cancel: () => this.close() }, { highWaterMark: 0 });
  }

  /** What was not read by now is not read any more. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    // The number of a descriptor may be given to another file: not while it is being read.
    void this.#reading.finally(() => closeSync(this.#descriptor));
    this.#closed();
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (this.#isClosed) throw new Error("the server is stopping");
    const piece = Buffer.allocUnsafeSlow(PIECE_BYTES);
    const reading = readPiece(this.#descriptor, piece, 0, PIECE_BYTES, null);
    this.#reading = reading.catch(() => {});
    const { bytesRead } = await reading.catch((error: unknown) => {
      this.close();
      throw error;
    });
    if (bytesRead > 0) {
      controller.enqueue(piece.subarray(0, bytesRead));
      return;
    }
    this.close();
    controller.close();
  }
}
