import type { HttpService } from "./http.ts";

/** Opens a session that outlives this process; it ends when told to, or when idle for too long. Resolves with its id. */
export async function openSession(service: HttpService, label: string): Promise<string> {
  const { session_id } = await service.ask<{ session_id: string }>("/v1/sessions", { method: "POST", label });
  return session_id;
}

/** Ends a session, with everything it holds and waits for. */
export function endSession(service: HttpService, id: string): Promise<void> {
  return service.ask(`/v1/sessions/${id}`, { method: "DELETE" });
}

/** The path of an operation on a key. */
export function keyPath(key: string, operation: string, limit = 1): string {
  return `/v1/${limit === 1 ? "locks" : "semaphores"}/${encodeURIComponent(key)}${operation}`;
}
