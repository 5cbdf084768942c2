import type { HttpService } from "./http.ts";

interface Opened {
  readonly session_id: string;
  readonly idle_timeout_s: number;
}

export interface Session {
  readonly id: string;
  /** Seconds without a request after which it ends. */
  readonly endsAfterSeconds: number;
}

/** Opens a session that outlives this process; it ends when told to, or when idle for too long. */
export async function openSession(service: HttpService, label: string): Promise<Session> {
  const opened = await service.ask<Opened>("/v1/sessions", { method: "POST", label });
  return { id: opened.session_id, endsAfterSeconds: 2 * opened.idle_timeout_s };
}

/** Ends a session, with everything it holds and waits for. */
export function endSession(service: HttpService, id: string): Promise<void> {
  return service.ask(`/v1/sessions/${id}`, { method: "DELETE" });
}

/** The path of an operation on a key. */
export function keyPath(key: string, operation: string, limit = 1): string {
  return `/v1/${limit === 1 ? "locks" : "semaphores"}/${encodeURIComponent(key)}${operation}`;
}
