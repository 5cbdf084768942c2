import { createHash } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { codeOf, Failure, reasonOf } from "../../node/listeners/failure.ts";
import type { Listen } from "./config.ts";

/** The longest path that every system accepts for a Unix socket is 104 bytes, including the final zero. */
const MAX_PATH_BYTES = 103;

/** Where the Unix sockets of a data directory are. */
export interface SocketPaths {
  /** Where workerd listens. */
  readonly workerd: string;
  /** Open as long as a server, or a workerd it has left behind, lives. */
  readonly alive: string;
  /** Used instead of `alive` if the directory's file system does not support sockets. */
  readonly aliveElsewhere: string;
  /** Removes what was created to reach them. */
  forget(): void;
}

/** Paths of the sockets. If the directory's own path is too long for a socket, a short link is used instead. */
export function socketPathsOf(dataDir: string): SocketPaths {
  const real = realpathSync(dataDir);
  const digest = createHash("sha256").update(real).digest("hex").slice(0, 24);
  const aliveElsewhere = join(tmpdir(), `holdfast-${digest}.sock`);
  if (Buffer.byteLength(join(real, "workerd.sock")) <= MAX_PATH_BYTES) {
    return { ...pathsIn(real), aliveElsewhere, forget() {} };
  }
  const folder = mkdtempSync(join(tmpdir(), "holdfast-"));
  const link = join(folder, "data");
  symlinkSync(real, link);
  return { ...pathsIn(link), aliveElsewhere, forget: () => rmSync(folder, { recursive: true, force: true }) };
}

const pathsIn = (folder: string) => ({ workerd: join(folder, "workerd.sock"), alive: join(folder, "serve.sock") });

/** Whether a server, or a workerd left behind by one, lives on the directory. */
export async function isAlive({ alive, aliveElsewhere }: SocketPaths): Promise<boolean> {
  return (await isOpen(alive)) || (await isOpen(aliveElsewhere));
}

/** Errors of connecting to a socket that no process has open: it is missing, or left over. */
const FREE = new Set(["ENOENT", "ECONNREFUSED"]);

/**
 * Whether any process has the socket open, by listening or by an inherited descriptor. Rejects with a `Failure` if that
 * cannot be determined: two servers on one directory would both grant its locks.
 */
function isOpen(path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", (error) => {
      const code = codeOf(error) ?? "";
      if (FREE.has(code)) resolve(false);
      // Connections are no longer accepted, but a process has the socket open.
      else if (code === "EAGAIN") resolve(true);
      else {
        reject(new Failure(`cannot tell whether another server uses the data directory: ${path}: ${reasonOf(error)}`));
      }
    });
  });
}

export interface HeldSocket {
  /** A process that inherits this descriptor keeps the socket open. */
  readonly fd: number;
  /** Where workerd can listen. */
  readonly workerd: Listen;
  close(): void;
}

/** Opens the socket that shows that a server lives on the directory. The caller must have made sure that none does. */
export async function holdAlive(paths: SocketPaths): Promise<HeldSocket> {
  try {
    return { ...(await listenOn(paths.alive)), workerd: { path: paths.workerd } };
  } catch {
    // Not every file system supports sockets.
    try {
      return { ...(await listenOn(paths.aliveElsewhere)), workerd: { host: "127.0.0.1", port: 0 } };
    } catch (error) {
      throw new Failure(`cannot open a socket in ${paths.alive} or ${paths.aliveElsewhere}: ${reasonOf(error)}`);
    }
  }
}

function listenOn(path: string): Promise<Pick<HeldSocket, "fd" | "close">> {
  rmSync(path, { force: true });
  return new Promise((resolve, reject) => {
    const server = createServer((visitor) => visitor.destroy());
    server.once("error", reject);
    server.listen({ path, backlog: 16 }, () => {
      server.unref();
      // Node does not expose the descriptor of a listening socket, and has no other way to let a child inherit it.
      const { fd } = (server as unknown as { readonly _handle: { readonly fd: number } })._handle;
      resolve({ fd, close: () => server.close() });
    });
  });
}
