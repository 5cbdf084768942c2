type Target = Pick<EventTarget, "addEventListener" | "removeEventListener">;
type Page = Target & { readonly visibilityState?: string };

/** What becomes of a page, where there is one. */
export interface PageEvents {
  /** Time may have passed without it, or the network is back. */
  returned(): void;
  /** The page is hidden. It comes before all that follows. */
  hidden(): void;
  /** It stands still from now on. */
  frozen(): void;
  /** Its user has gone elsewhere, and it is kept in case he comes back. */
  left(): void;
}

const pageNow = () => (globalThis as { document?: Page }).document;

/** Nobody looks at the page. */
export const isHidden = (): boolean => pageNow()?.visibilityState === "hidden";

/** Tells what becomes of the page. Returns the end of it. */
export function watchPage({ returned, hidden, frozen, left }: PageEvents): () => void {
  const document = pageNow();
  // Workers of browsers have no document, but a network that comes and goes. Other runtimes may not take such listeners.
  const isBrowser = "ononline" in globalThis || "WorkerNavigator" in globalThis;
  const window = isBrowser ? (globalThis as Partial<Target>) : undefined;
  const unloaded = (event: Event) => (event as { readonly persisted?: boolean }).persisted && left();
  const listeners = [
    [document, "visibilitychange", () => (isHidden() ? hidden() : returned())],
    [document, "freeze", frozen],
    [document, "resume", returned],
    [window, "pagehide", unloaded],
    [window, "pageshow", returned],
    [window, "online", returned],
  ] as const;
  for (const [target, name, listener] of listeners) target?.addEventListener?.(name, listener);
  return () => {
    for (const [target, name, listener] of listeners) target?.removeEventListener?.(name, listener);
  };
}
