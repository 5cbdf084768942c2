import { WebSocket } from "ws";
import {
  AcquireTimeoutError,
  AuthError,
  CapacityError,
  DrainingError,
  LimitMismatchError,
} from "../../client/errors.ts";
import { connect, type Locks, type SocketConstructor } from "../../client/index.ts";
import { CommandError } from "../output/errors.ts";
import { draining, full, limitMismatch, nonsense, refusal, tokenRefused, unreachable } from "./failures.ts";
import { HttpService } from "./http.ts";
import type { Target } from "./target.ts";

/** What a WebSocket says that was answered with something else than an upgrade. */
const REFUSED_UPGRADE = /^Unexpected server response: ([0-9]+)$/;
/** Unlike Node's own WebSocket, which Node 20 lacks, this one says why a connection fails. */
const Socket = WebSocket as unknown as SocketConstructor;

/**
 * A client whose session stands. Throws a `CommandError` after the first attempt that fails: a command says at once that
 * nobody is there. The signal ends the attempt with its own reason. From then on the client comes back by itself whenever the
 * connection is lost.
 */
export async function connectLocks(target: Target, label: string, signal: AbortSignal): Promise<Locks> {
  const { url, token } = target;
  const locks = connect(url, { label, WebSocket: Socket, ...(token === undefined ? {} : { token }) });
  const abort = () => void locks.close();
  signal.addEventListener("abort", abort);
  try {
    for await (const status of locks.status()) {
      if (status === "connected") return locks;
      const { problem } = locks;
      await locks.close();
      signal.throwIfAborted();
      throw await noConnection(target, problem);
    }
    signal.throwIfAborted();
    throw unreachable(target, "the connection was closed");
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

async function noConnection(target: Target, problem: unknown): Promise<unknown> {
  if (problem === "refused") return tokenRefused(target);
  if (typeof problem === "string" && problem.startsWith("closed ")) return reasonOverHttp(target, problem);
  const [, status] = REFUSED_UPGRADE.exec((problem as Partial<Error> | undefined)?.message ?? "") ?? [];
  switch (status) {
    case undefined:
      return unreachable(target, problem);
    case "401":
      return tokenRefused(target);
    case "403":
      return refusal(target, 403, "forbidden", undefined);
    case "421":
      return refusal(target, 421, "host_forbidden", undefined);
    case "429":
      return refusal(target, 429, "rate_limited", undefined);
    case "503":
      return full(target, "it takes no more connections, or is starting");
    default:
      return nonsense(target, `HTTP ${status}`);
  }
}

/** A WebSocket to a name with several addresses fails without a reason; a plain request to the same name has one. */
async function reasonOverHttp(target: Target, problem: string): Promise<unknown> {
  const service = new HttpService(target);
  return service.state("/ready").then(
    () => unreachable(target, problem),
    (error: unknown) => error,
  );
}

/** What an error of the client means to the user of a command. Errors that are none of the client's stay what they are. */
export function explained(target: Target, error: unknown, { key, limit }: { key: string; limit: number }): unknown {
  if (error instanceof AcquireTimeoutError) {
    return error.cause === undefined
      ? new CommandError("busy", `busy ${key}`, { isReport: true })
      : unreachable(target, error.cause);
  }
  if (error instanceof AuthError) return refusal(target, 403, "forbidden", undefined);
  if (error instanceof DrainingError) return draining(target);
  if (error instanceof LimitMismatchError) return limitMismatch(key, limit);
  if (error instanceof CapacityError) return full(target, error.code);
  const code = (error as { code?: unknown }).code;
  if (code === "connection") return unreachable(target, (error as Error).cause ?? error);
  if (code === "lost")
    return new CommandError("lost", `lost ${key}: its lease ended before it could be used`, { isReport: true });
  if (code === "protocol") return nonsense(target, (error as Error).message);
  return error;
}
