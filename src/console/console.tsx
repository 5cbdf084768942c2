import { useCallback, useEffect, useMemo, useRef, useState } from "hono/jsx/dom";
import { KeyPage } from "./key/key-page.tsx";
import { Keys } from "./keys/keys.tsx";
import { Playground } from "./playground/playground.tsx";
import { credential } from "./shared/credential.ts";
import { Header } from "./shared/header.tsx";
import { page } from "./shared/page-settings.ts";
import { type Route, useRoute } from "./shared/route.ts";
import { Service } from "./shared/service.ts";
import { SignIn } from "./shared/sign-in.tsx";

/** The whole page. Where a token is needed, it asks the service nothing before the user has given one. */
export function Console() {
  const [secret, setSecret] = useState<string | undefined>(page.needsToken ? credential.get() : undefined);
  const [refusal, setRefusal] = useState<string | undefined>(undefined);
  // A service that was open when the page was loaded may want a token by now.
  const [hasLeft, setHasLeft] = useState(page.needsToken);
  const [hasEntered, setHasEntered] = useState(false);
  const service = useMemo(() => new Service(secret), [secret]);
  const enter = useCallback((shown: string) => {
    credential.keep(shown);
    setRefusal(undefined);
    setHasEntered(true);
    setSecret(shown);
  }, []);
  const leave = useCallback((why?: string) => {
    credential.forget();
    setRefusal(why);
    setHasLeft(true);
    setSecret(undefined);
  }, []);
  if (hasLeft && secret === undefined) return <SignIn refusal={refusal} onEnter={enter} />;
  return <SignedIn service={service} takesFocus={hasEntered} onLeave={leave} />;
}

interface SignedInProps {
  readonly service: Service;
  /** After signing in: the focus was in the form, which is gone. */
  readonly takesFocus: boolean;
  readonly onLeave: (why?: string) => void;
}

function SignedIn({ service, takesFocus, onLeave }: SignedInProps) {
  const route = useRoute();
  const content = useRef<HTMLElement>(null);
  useEffect(() => {
    document.title = titleOf(route);
  }, [titleOf(route)]);
  useEffect(() => {
    if (takesFocus) content.current?.focus();
  }, []);
  return (
    <>
      <button type="button" class="skip" onClick={skipToContent}>
        Skip to content
      </button>
      <Header service={service} route={route} onLeave={onLeave} />
      <main id="content" tabindex={-1} ref={content}>
        <Content service={service} route={route} />
      </main>
    </>
  );
}

function titleOf(route: Route): string {
  if (route.name === "keys") return "holdfast";
  return `${route.name === "key" ? route.key : "Playground"} · holdfast`;
}

/** Not a link, because the `#` part of the address is the route. */
function skipToContent(): void {
  document.querySelector<HTMLElement>("#content")?.focus();
}

function Content({ service, route }: { readonly service: Service; readonly route: Route }) {
  switch (route.name) {
    case "keys":
      return <Keys service={service} />;
    case "key":
      return <KeyPage key={route.key} name={route.key} service={service} />;
    case "playground":
      return <Playground service={service} />;
  }
}
