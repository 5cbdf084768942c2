import type { HttpService } from "./http.ts";

interface Opened {
  readonly session_id: string;
  readonly idle_timeout_s: number;
}

export interface Session {
  readonly id: string;
  /** It ends after so many seconds without a request. */
  readonly endsAfterSeconds: number;
}

/** A session that outlives this process; it ends when it is told to, or has been idle for too long. */
export async function openSession(service: HttpService, label: string): Promise<Session> {
  const opened = await service.ask<Opened>("/v1/sessions", { method: "POST", label });
  return { id: opened.session_id, endsAfterSeconds: 2 * opened.idle_timeout_s };
}

/** Ends a session and all it holds and waits for. */
export function endSession(service: HttpService, id: string): Promise<void> {
  return service.ask(`/v1/sessions/${id}`, { method: "DELETE" });
}

/** The path of an operation on a key. */
export function keyPath(key: string, operation: string, limit = 1): string {
  return `/v1/${limit === 1 ? "locks" : "semaphores"}/${encodeURIComponent(key)}${operation}`;
}
