import { AUTH_FAILURE_PAUSE_MS, type Principal } from "../../auth/principal.ts";
import type { Frame } from "../../protocols/wire/frames.ts";
import { parseRequest } from "../../protocols/wire/requests.ts";
import type { SessionContext } from "../context.ts";

/** Authenticates one client. A wrong credential is counted and answered after a pause, to slow down guessing. */
export class Handshake {
  readonly #context: SessionContext;
  #then: ((principal: Principal | undefined) => void) | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** A credential is being checked. */
  get isUnderWay(): boolean {
    return this.#then !== undefined;
  }

  begin(frame: Frame, then: (principal: Principal | undefined) => void): void {
    const parsed = parseRequest("auth", frame);
    const secret = parsed.ok && parsed.request.type === "auth" ? parsed.request.token : frame.arg;
    this.#then = (principal) => {
      const end = () => {
        this.#then = undefined;
        then(principal);
      };
      // On an open service only the admin token can be shown: this was a wrong one.
      if (principal?.type === "open") this.#wrong(end);
      else end();
    };
    this.#context.emit({ type: "authenticate", secret });
  }

  authenticated(principal: Principal | undefined): void {
    this.#then?.(principal);
  }

  /** A credential is wrong, or another request has come first: the answer after a pause, and the end after another. */
  refuse(answer: () => void, end: () => void): void {
    this.#wrong(() => {
      answer();
      this.#pause(end);
    });
  }

  #wrong(then: () => void): void {
    this.#context.emit({ type: "count", happening: { type: "auth_failed" } });
    this.#pause(then);
  }

  #pause(then: () => void): void {
    this.#context.timers.at(this.#context.now + AUTH_FAILURE_PAUSE_MS, then);
  }
}
