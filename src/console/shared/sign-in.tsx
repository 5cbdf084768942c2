import { useState } from "hono/jsx/dom";
import { page } from "./page-settings.ts";
import { inWords, Service, ServiceError } from "./service.ts";

interface SignInProps {
  /** Why the user was signed out. */
  readonly refusal: string | undefined;
  readonly onEnter: (secret: string) => void;
}

/** Asks for a token or ticket until the service accepts it. */
export function SignIn({ refusal, onEnter }: SignInProps) {
  const [problem, setProblem] = useState(refusal);
  const [isTrying, setTrying] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const field = (event.currentTarget as HTMLFormElement).elements.namedItem("secret") as HTMLInputElement;
    const secret = field.value.trim();
    if (secret === "") {
      setProblem("A token is needed to look inside.");
      field.focus();
      return;
    }
    setTrying(true);
    try {
      await new Service(secret).json("/v1/stats?limit=1");
      onEnter(secret);
    } catch (error) {
      setTrying(false);
      const mayNotLook = error instanceof ServiceError && error.code === "forbidden";
      setProblem(mayNotLook ? "This ticket lacks the operation stats, which the console needs." : inWords(error));
      field.select();
    }
  };
  return (
    <main class="sign-in" id="content">
      <form onSubmit={submit} aria-labelledby="sign-in-title">
        <p class="brand">
          <span class="mark" aria-hidden="true" />
          holdfast <small>{page.version}</small>
        </p>
        <h1 id="sign-in-title">Sign in</h1>
        <p>This service is not open to everybody. Show its token, or a ticket you were given.</p>
        <label for="secret">Token or ticket</label>
        <input
          id="secret"
          name="secret"
          type="password"
          autocomplete="off"
          autocapitalize="none"
          spellcheck={false}
          autofocus
          aria-describedby="secret-note"
          aria-invalid={problem ? "true" : "false"}
        />
        <p class="problem" role="alert">
          {problem ?? ""}
        </p>
        <button class="primary" type="submit" disabled={isTrying}>
          {isTrying ? "Looking …" : "Sign in"}
        </button>
        <p class="note" id="secret-note">
          It stays in this tab and is gone when you close it.
        </p>
      </form>
    </main>
  );
}
