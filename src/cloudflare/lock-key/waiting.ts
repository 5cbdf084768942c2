import type { ClaimCommand, ClaimOutcome } from "../../core/engine/index.ts";
import type { ClaimEnd } from "../../service.ts";
import type { RemoteKeys } from "../calls/remote-keys.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";
import { Presence } from "../locks/presence.ts";
import type { Wait } from "../locks/token-locks.ts";

/** How long the Worker listens at a time, about: the first time, and later. All waits of an isolate let go at the same times. */
const LISTENS_MS = { first: 250, most: 1_000 };
/** How long a wait that has let go stays apart from its key, at most, until all others have let go too; and how often it looks. */
const APART_MS = { most: 1_000, look: 10 };
/** Pauses after a socket that was lost. */
const RETRY_PAUSES_MS = [50, 200, 800, 1_600];
/** For the end of a request to take effect, if nothing else keeps it. */
const BREATH_MS = 1;

interface Listening {
  readonly letsGoAt: number;
  /** Its socket is open. The socket to a far key takes its time to close. */
  readonly isOpen: boolean;
}

// Shared by all requests of the isolate. By the request of each wait.
const waits = new Map<string, Listening>();

/**
 * Waits for a lock on a socket to its key, until the signal aborts: then it rejects, and the claim is left as it is. While
 * the Worker listens, its request goes on even if its client has left (workerd 2026-11). So it listens for a while, lets
 * go, and listens again; and what it hears counts only when it is still there after that. Its presence keeps its place
 * meanwhile. A request with several waits ends only while none of them listens, and nothing tells which waits are of one
 * request: so all of the isolate let go together, and none listens again before all have let go.
 */
export async function waitForLock(
  keys: Pick<RemoteKeys, "listen">,
  { key, command }: Wait,
  signal: AbortSignal | undefined,
): Promise<ClaimEnd> {
  const deadline = Date.now() + command.waitMs;
  const presence = new Presence();
  await presence.open(keys, key, command.request);
  let losses = 0;
  try {
    for (let forMs = LISTENS_MS.first; ; forMs = Math.min(2 * forMs, LISTENS_MS.most)) {
      const socket = await keys.listen(key, command.request);
      const now = Date.now();
      const letsGoAt = Math.ceil((now + forMs / 2) / forMs) * forMs;
      const left = { ...command, waitMs: Math.max(1, deadline - now) };
      waits.set(command.request, { letsGoAt, isOpen: true });
      const heard = await listen(socket, left, letsGoAt - now, signal);
      waits.set(command.request, { letsGoAt, isOpen: false });
      if (heard === "nothing" && !signal?.aborted && letsGoAt % LISTENS_MS.most === 0) await othersLetGo(letsGoAt);
      await scheduler.wait(BREATH_MS);
      if (typeof heard !== "string" || signal?.aborted) {
        presence.end();
        signal?.throwIfAborted();
      }
      if (typeof heard !== "string") return heard;
      if (heard === "nothing") {
        losses = 0;
        continue;
      }
      const pauseMs = RETRY_PAUSES_MS[losses++];
      if (pauseMs === undefined) throw new Error("the key was lost again and again");
      await scheduler.wait(pauseMs);
      // A restart of the key's object has cut this socket too.
      await presence.open(keys, key, command.request);
    }
  } finally {
    waits.delete(command.request);
  }
}

/** Resolves when the isolate's other waits that were to let go by this time have done so. Those of requests that have ended are forgotten. */
async function othersLetGo(by: number): Promise<void> {
  const isAnyOpen = (now: number) => {
    for (const [request, { letsGoAt, isOpen }] of waits) {
      if (letsGoAt + LISTENS_MS.most + APART_MS.most < now) waits.delete(request);
      else if (isOpen && letsGoAt <= by) return true;
    }
    return false;
  };
  for (let now = Date.now(); now < by + APART_MS.most && isAnyOpen(now); now = Date.now())
    await scheduler.wait(APART_MS.look);
}

/** Makes the claim, or makes it again, and listens for its end. Resolves when the socket is closed. */
async function listen(
  socket: WebSocket,
  command: ClaimCommand,
  forMs: number,
  signal: AbortSignal | undefined,
): Promise<ClaimEnd | "nothing" | "lost"> {
  const heard = Promise.withResolvers<ClaimEnd | "nothing" | "lost">();
  const closed = Promise.withResolvers<void>();
  const end = () => {
    heard.resolve("lost");
    closed.resolve();
  };
  socket.addEventListener("message", ({ data }) => heard.resolve(endIn(String(data))));
  socket.addEventListener("close", end);
  socket.addEventListener("error", end);
  const stop = () => heard.resolve("nothing");
  const timer = setTimeout(stop, forMs);
  signal?.addEventListener("abort", stop);
  socket.accept();
  socket.send(JSON.stringify(command));
  const first = await heard.promise;
  clearTimeout(timer);
  signal?.removeEventListener("abort", stop);
  if (first !== "lost") socket.close(POLL_CLOSE.paused);
  await closed.promise;
  return first;
}

function endIn(message: string): ClaimEnd | "lost" {
  const reply = JSON.parse(message) as Reply<ClaimOutcome>;
  if (reply.type === "gone" || reply.outcome.status === "queued" || reply.outcome.status === "would_wait")
    return "lost";
  return reply.outcome;
}
