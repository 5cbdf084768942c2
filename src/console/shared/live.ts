import { useRef, useState } from "hono/jsx/dom";
import { useLasting } from "./lasting-effect.ts";
import { inWords, ServiceError } from "./service.ts";

/** A value that is polled, as last received. */
export interface Live<Value> {
  readonly value: Value | undefined;
  /** Why the last attempt failed, for people; undefined if it succeeded. */
  readonly problem: string | undefined;
  /** The service's error code. */
  readonly code: string | undefined;
  /** Asks now. */
  readonly refresh: () => void;
}

const LONGEST_PAUSE_MS = 5_000;

/**
 * Polls a value, one request at a time. A hidden page does not poll, and polls at once when it is shown. After a failure
 * the last value stays, `problem` is set, and the pauses grow.
 */
export function useLive<Value>(
  load: (signal: AbortSignal) => Promise<Value>,
  everyMs: number,
  dependencies: readonly unknown[],
): Live<Value> {
  const [state, setState] = useState<Omit<Live<Value>, "refresh">>({
    value: undefined,
    problem: undefined,
    code: undefined,
  });
  const refresh = useRef<() => void>(() => {});
  useLasting(() => {
    const over = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let failures = 0;
    let isAsking = false;
    const ask = async () => {
      if (isAsking || over.signal.aborted || document.hidden) return;
      clearTimeout(timer);
      isAsking = true;
      let pauseMs = everyMs;
      try {
        const value = await load(over.signal);
        failures = 0;
        if (!over.signal.aborted) setState({ value, problem: undefined, code: undefined });
      } catch (error) {
        failures += 1;
        const code = error instanceof ServiceError ? error.code : "failed";
        const asked = error instanceof ServiceError ? (error.retryAfterMs ?? 0) : 0;
        pauseMs = Math.max(asked, Math.min(everyMs * 2 ** (failures - 1), LONGEST_PAUSE_MS));
        if (!over.signal.aborted) setState((last) => ({ ...last, problem: inWords(error), code }));
      }
      isAsking = false;
      if (!over.signal.aborted) timer = setTimeout(ask, pauseMs);
    };
    const seen = () => {
      if (document.hidden) clearTimeout(timer);
      else void ask();
    };
    refresh.current = () => void ask();
    document.addEventListener("visibilitychange", seen, { signal: over.signal });
    globalThis.addEventListener("online", seen, { signal: over.signal });
    void ask();
    return () => {
      over.abort();
      clearTimeout(timer);
    };
  }, dependencies);
  return { ...state, refresh: () => refresh.current?.() };
}
