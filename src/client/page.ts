type Target = Pick<EventTarget, "addEventListener" | "removeEventListener">;

/** What tells a page, where there is one, that time may have passed without it or that the network is back. */
const EVENTS = { document: ["visibilitychange", "resume"], window: ["pageshow", "online"] } as const;

/** Calls back whenever a page comes back from where its timers did not run. Returns the end of it. */
export function onReturn(call: () => void): () => void {
  const { document } = globalThis as { document?: Target };
  const targets = [
    [document, EVENTS.document],
    // Workers of browsers have no document, but a network that comes and goes.
    ["ononline" in globalThis ? (globalThis as Partial<Target>) : undefined, EVENTS.window],
  ] as const;
  for (const [target, names] of targets) for (const name of names) target?.addEventListener?.(name, call);
  return () => {
    for (const [target, names] of targets) for (const name of names) target?.removeEventListener?.(name, call);
  };
}
