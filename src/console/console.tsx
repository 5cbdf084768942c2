import { useCallback, useMemo, useState } from "hono/jsx/dom";
import { credential } from "./credential.ts";
import { Header } from "./header.tsx";
import { KeyPage } from "./key/key-page.tsx";
import { Keys } from "./keys/keys.tsx";
import { page } from "./page.ts";
import { Playground } from "./playground/playground.tsx";
import { type Route, useRoute } from "./route.ts";
import { Service } from "./service.ts";
import { SignIn } from "./sign-in.tsx";

/** The whole page. Until its user has shown a token, where one is needed, nothing is asked of the service. */
export function Console() {
  const [secret, setSecret] = useState<string | undefined>(page.needsToken ? credential.get() : undefined);
  const [refusal, setRefusal] = useState<string | undefined>(undefined);
  const service = useMemo(() => new Service(secret), [secret]);
  const enter = useCallback((shown: string) => {
    credential.keep(shown);
    setRefusal(undefined);
    setSecret(shown);
  }, []);
  const leave = useCallback((why?: string) => {
    credential.forget();
    setRefusal(why);
    setSecret(undefined);
  }, []);
  if (page.needsToken && secret === undefined) return <SignIn refusal={refusal} onEnter={enter} />;
  return <SignedIn service={service} onLeave={leave} />;
}

interface SignedInProps {
  readonly service: Service;
  readonly onLeave: (why?: string) => void;
}

function SignedIn({ service, onLeave }: SignedInProps) {
  const route = useRoute();
  return (
    <>
      <button type="button" class="skip" onClick={skipToContent}>
        Skip to content
      </button>
      <Header service={service} route={route} onLeave={onLeave} />
      <main id="content" tabindex={-1}>
        <Content service={service} route={route} />
      </main>
    </>
  );
}

/** No link: what stands behind the `#` of the address is a place in the console. */
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
