/** A failed request, with a message for the page. */
export class ServiceError extends Error {
  /** The service's error code; `unreachable` if there was no answer. */
  readonly code: string;
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, retryAfterMs?: number) {
    super(message);
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}

const WORDS: Readonly<Record<string, string>> = {
  unauthorized: "The service does not accept this token. It may be wrong, or a ticket that has run out.",
  forbidden: "This token or ticket may not do that.",
  rate_limited: "The service asks to be asked less often.",
  not_found: "There is nothing there any more.",
  not_held: "Nobody holds it with that fence any more: it has moved on by itself.",
  misconfigured: "The service has an invalid setting and serves nobody. Its log says which.",
  unavailable: "Part of the service does not answer at the moment.",
  internal: "The service failed inside. Its log says more.",
};

const ANSWERED_WITHIN_MS = 15_000;

export interface Asking {
  readonly method?: "GET" | "DELETE";
  readonly signal?: AbortSignal;
}

/** The service's HTTP API, with the credential of one user. */
export class Service {
  readonly credential: string | undefined;

  constructor(credential: string | undefined) {
    this.credential = credential;
  }

  async json<Document>(path: string, asking: Asking = {}): Promise<Document> {
    return (await this.#ask(path, asking)).json() as Promise<Document>;
  }

  async text(path: string, asking: Asking = {}): Promise<string> {
    return (await this.#ask(path, asking)).text();
  }

  async #ask(path: string, { method = "GET", signal }: Asking): Promise<Response> {
    const limit = AbortSignal.timeout(ANSWERED_WITHIN_MS);
    const headers = this.credential === undefined ? {} : { Authorization: `Bearer ${this.credential}` };
    let response: Response;
    try {
      const either = signal ? AbortSignal.any([signal, limit]) : limit;
      // Relative to the page, which may be mounted under a path.
      response = await fetch(`.${path}`, { method, headers, signal: either, cache: "no-store" });
    } catch {
      signal?.throwIfAborted();
      throw new ServiceError("unreachable", "The service does not answer. Is it running, and is the network there?");
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

async function errorOf(response: Response): Promise<ServiceError> {
  const document = (await response.json().catch(() => ({}))) as { error?: string; detail?: string };
  const code = document.error ?? `status ${response.status}`;
  const retryAfter = Number(response.headers.get("Retry-After"));
  const words = WORDS[code] ?? document.detail ?? `The service answered ${code}.`;
  return new ServiceError(code, words, retryAfter > 0 ? retryAfter * 1000 : undefined);
}

/** The message of any error. */
export function inWords(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
