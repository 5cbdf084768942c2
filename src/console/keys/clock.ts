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

/** How long something has lasted that had lasted so long at that moment. */
export function lasted(seconds: number, at: number): number {
  return seconds + Math.max(0, performance.now() - at) / 1000;
}

/** How long something still lasts of which so much was left at that moment. */
export function left(seconds: number, at: number): number {
  return Math.max(0, seconds - Math.max(0, performance.now() - at) / 1000);
}

/** A time span that grows or shrinks before one's eyes: in whole seconds. */
export function ticking(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 10 ? `${whole} s` : span(whole);
}
