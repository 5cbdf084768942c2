import { existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { codeOf, reasonOf } from "../../node/listeners/failure.ts";
import { OVERWRITE } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { CommandError, UsageError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import { SignalRelay } from "../run/signals.ts";
import { nonsense, unreachable } from "../service/failures.ts";
import type { HttpService } from "../service/http.ts";
import { withService } from "./context.ts";

const TYPE = "application/vnd.sqlite3";
const MAGIC = "SQLite format 3\0";
/** A server copies a million keys within a second; a slow disk with a large file may need minutes. */
const COPIED_WITHIN_MS = 600_000;

/** `holdfast backup FILE`: FILE is there when it is whole, and on disk. */
export async function main(args: Arguments): Promise<number> {
  const path = args.operands[0] ?? "";
  if (path === "") throw new UsageError("FILE is empty");
  const overwrites = args.has(OVERWRITE);
  const { interrupted } = new SignalRelay();
  return withService(args, async (service) => {
    // Checked first as well: a copy that cannot be kept need not be made.
    if (!overwrites) refuseToOverwrite(path);
    const partial = `${path}.partial-${process.pid}`;
    try {
      const bytes = await write(partial, path, service, interrupted);
      if (!overwrites) refuseToOverwrite(path);
      await onDisk(path, () => rename(partial, path));
      await syncDirectory(dirname(path));
      new Printer(args.output).result({ path, bytes }, [`copied ${bytes} bytes to ${path}`]);
    } finally {
      await rm(partial, { force: true });
    }
  });
}

function refuseToOverwrite(path: string): void {
  if (existsSync(path)) throw new CommandError("path", `${path} exists: name another file, or add ${OVERWRITE.name}`);
}

/** Resolves with the size of the file, once all of it is on disk. */
async function write(partial: string, path: string, service: HttpService, signal: AbortSignal): Promise<number> {
  const content = await service
    .download("/v1/admin/backup", TYPE, { signal, waitMs: COPIED_WITHIN_MS })
    .catch((error) => {
      signal.throwIfAborted();
      throw error;
    });
  // For this user alone: it holds tokens.
  const file = await onDisk(path, () => open(partial, "w", 0o600));
  try {
    const bytes = await copy(content, file, { path, service, signal });
    await onDisk(path, () => file.sync());
    return bytes;
  } finally {
    await file.close();
  }
}

interface Copying {
  readonly path: string;
  readonly service: HttpService;
  readonly signal: AbortSignal;
}

async function copy(content: AsyncIterable<Buffer>, file: FileHandle, { path, service, signal }: Copying) {
  const pieces = content[Symbol.asyncIterator]();
  const next = async () => {
    try {
      return await pieces.next();
    } catch (error) {
      signal.throwIfAborted();
      throw unreachable(service.target, error);
    }
  };
  let bytes = 0;
  let head = "";
  for (let piece = await next(); !piece.done; piece = await next()) {
    const { value } = piece;
    if (head.length < MAGIC.length) head += value.toString("latin1", 0, MAGIC.length);
    await onDisk(path, () => file.writeFile(value));
    bytes += value.length;
  }
  if (!head.startsWith(MAGIC)) throw nonsense(service.target, "no SQLite file");
  return bytes;
}

/** What the disk refuses, as an error for the user. */
async function onDisk<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const isPath = ["ENOENT", "ENOTDIR", "EISDIR", "EACCES", "ENAMETOOLONG"].includes(codeOf(error) ?? "");
    throw new CommandError(isPath ? "path" : "io", `cannot write ${path}: ${reasonOf(error)}`, { cause: error });
  }
}

/** The new name has to be on disk as well. Some systems and file systems cannot do that with a directory. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r").catch(() => undefined);
  await directory?.sync().catch(() => {});
  await directory?.close();
}
