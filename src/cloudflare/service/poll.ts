import type { Outcome } from "../../core/protocols/statuses.ts";
import { POLL_CLOSE, type Reply } from "../calls/replies.ts";

/** How a long poll ended: with an answer, or because its session, its client or the session's object is gone. */
export type PollEnd<Answer = Outcome> = Reply<Answer> | { readonly type: "vanished" | "lost" };

/** Clients hardly ever hang up sooner than this, and checking for it costs a millisecond. */
const QUICK_MS = 5;

/**
 * Lets a hang-up of the client reach its signal. workerd reads from connections only when nothing else is left to do
 * (2026-11): without this, an answer overtakes a hang-up that came before it.
 */
export async function reportHangUp(askedAt = 0): Promise<void> {
  if (Date.now() - askedAt >= QUICK_MS) await scheduler.wait(0);
}

/**
 * Resolves when a long poll has ended. A client that hangs up ends it immediately: the session receives `vanished` and
 * withdraws the request, even if it has just sent a grant. After `answered`, the reply is on its way and the token
 * belongs to the client: it may have read it before the service learns that the connection has ended (docs/adr/0012).
 */
export async function endOfPoll<Answer = Outcome>(socket: WebSocket, signal: AbortSignal): Promise<PollEnd<Answer>> {
  const end = Promise.withResolvers<PollEnd<Answer>>();
  // The first result counts, so an answer that arrives after the hang-up is not delivered.
  signal.addEventListener("abort", () => end.resolve({ type: "vanished" }));
  socket.addEventListener("message", ({ data }) => end.resolve(JSON.parse(String(data)) as Reply<Answer>));
  socket.addEventListener("close", () => end.resolve({ type: "lost" }));
  socket.addEventListener("error", () => end.resolve({ type: "lost" }));
  if (signal.aborted) end.resolve({ type: "vanished" });
  socket.accept();
  const first = await end.promise;
  if (first.type === "answered") await reportHangUp();
  const ended: PollEnd<Answer> = signal.aborted ? { type: "vanished" } : first;
  try {
    socket.close(ended.type === "answered" ? POLL_CLOSE.delivered : POLL_CLOSE.vanished);
  } catch {
    // The session has already closed its end.
  }
  return ended;
}
