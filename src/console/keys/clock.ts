import { useState } from "hono/jsx/dom";
import { useLasting } from "../shared/lasting-effect.ts";
import { span } from "../shared/words.ts";

const TICK_MS = 1_000;

/** Redraws the caller every second, for the times it shows. */
export function useSeconds(): void {
  const [, setTick] = useState(0);
  useLasting(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
}

/** Time elapsed now, given the time elapsed at `at`. */
export function lasted(seconds: number, at: number): number {
  return seconds + Math.max(0, performance.now() - at) / 1000;
}

/** Time left now, given the time left at `at`. */
export function left(seconds: number, at: number): number {
  return Math.max(0, seconds - Math.max(0, performance.now() - at) / 1000);
}

/** A time span that is redrawn every second: whole seconds. */
export function ticking(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 10 ? `${whole} s` : span(whole);
}
