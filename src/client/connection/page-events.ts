type Target = Pick<EventTarget, "addEventListener" | "removeEventListener">;
type Page = Target & { readonly visibilityState?: string };

/** Changes of the page's lifecycle. */
export interface PageEvents {
  /** The page is shown or runs again, or the network is back. */
  returned(): void;
  /** The page is hidden. Comes before `frozen` and `left`. */
  hidden(): void;
  /** The page is about to be frozen. */
  frozen(): void;
  /** The user has navigated away, and the browser keeps the page for the way back. */
  left(): void;
}

const pageNow = () => (globalThis as { document?: Page }).document;

export const isHidden = (): boolean => pageNow()?.visibilityState === "hidden";

/** Listens to the page, where there is one. Returns a function that stops it. */
export function watchPage({ returned, hidden, frozen, left }: PageEvents): () => void {
  const document = pageNow();
  // Workers have no document, but network events. Other runtimes may refuse such listeners.
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
