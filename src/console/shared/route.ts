import { useState } from "hono/jsx/dom";
import { useLasting } from "./lasting-effect.ts";

/** The page of the console, kept in the `#` part of the address so that it can be bookmarked. */
export type Route =
  | { readonly name: "keys" }
  | { readonly name: "key"; readonly key: string }
  | { readonly name: "playground" };

export const hrefOf = {
  keys: "#/",
  playground: "#/playground",
  key: (key: string) => `#/keys/${encodeURIComponent(key)}`,
} as const;

export function routeOf(hash: string): Route {
  if (hash === hrefOf.playground) return { name: "playground" };
  const [, encoded] = /^#\/keys\/(.+)$/.exec(hash) ?? [];
  try {
    return encoded === undefined ? { name: "keys" } : { name: "key", key: decodeURIComponent(encoded) };
  } catch {
    return { name: "keys" };
  }
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useLasting(() => {
    const changed = () => setHash(location.hash);
    globalThis.addEventListener("hashchange", changed);
    return () => globalThis.removeEventListener("hashchange", changed);
  }, []);
  return routeOf(hash);
}
