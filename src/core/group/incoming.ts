import { type LineFault, NO_NONCE } from "../protocols/godistlock/errors.ts";
import { exchangesFences, parseRelayLine, type RelayReply, type RelayRequest } from "../protocols/godistlock/relay.ts";
import type { Question } from "./effects.ts";

export interface RelayIdentity {
  readonly id: string;
  readonly version: string;
  readonly peers: readonly string[];
}

/** How far a connection has come. `known`: it has shown the token. `introduced`: it has said which peer it is. */
export type IncomingState =
  | { readonly phase: "unknown" | "known" }
  | { readonly phase: "introduced"; readonly id: string; readonly version: string };

/** What a line leads to. */
export type IncomingAction =
  | { readonly type: "nothing" | "hang_up" }
  | { readonly type: "reply"; readonly reply: RelayReply }
  /** Told, then closed. */
  | { readonly type: "refuse"; readonly fault: LineFault }
  | { readonly type: "authenticate"; readonly token: string; readonly nonce: string }
  | { readonly type: "ask"; readonly id: string; readonly version: string; readonly question: Question };

export const AUTH_REQUIRED: LineFault = { word: "auth-required", nonce: NO_NONCE };

/** A connection that another deployment has opened, up to the questions it asks. */
export class IncomingRelay {
  readonly #own: RelayIdentity;
  #state: IncomingState;

  constructor(own: RelayIdentity, state: IncomingState) {
    this.#own = own;
    this.#state = state;
  }

  get state(): IncomingState {
    return this.#state;
  }

  /** The peer, once it has introduced itself. */
  get peer(): string | undefined {
    return this.#state.phase === "introduced" ? this.#state.id : undefined;
  }

  take(line: Uint8Array): IncomingAction {
    const parsed = parseRelayLine(line);
    if (this.#state.phase === "unknown") {
      const request = parsed.ok && parsed.message.is === "request" ? parsed.message.request : undefined;
      return request?.type === "auth" ? authenticate(request) : refuse(AUTH_REQUIRED);
    }
    if (!parsed.ok) return refuse(parsed.fault);
    if (parsed.message.is === "request") return this.#request(parsed.message.request);
    // We ask nothing on this connection, so this answers no question of ours.
    return parsed.message.reply.type === "err" ? { type: "hang_up" } : { type: "nothing" };
  }

  /** The token of an `authenticate` has been compared. */
  authenticated(isRight: boolean, nonce: string): IncomingAction {
    if (!isRight) return refuse(AUTH_REQUIRED);
    if (this.#state.phase === "unknown") this.#state = { phase: "known" };
    return this.#howdy(nonce);
  }

  #request(request: RelayRequest): IncomingAction {
    if (request.type === "auth") return authenticate(request);
    const { nonce } = request;
    if (request.type === "hello") {
      const { id, version } = request;
      if (!this.#isWelcome(id)) return refuse({ word: "unknown-relay", nonce });
      this.#state = { phase: "introduced", id, version };
      return this.#howdy(nonce);
    }
    if (this.#state.phase !== "introduced") return refuse({ word: "unknown-relay", nonce });
    const { id, version } = this.#state;
    // A server of another kind has no such field: what it sends there is no fence.
    if (request.type === "comm" && request.fence !== undefined && !exchangesFences(version))
      return refuse({ word: "invalid-message", nonce: NO_NONCE });
    return { type: "ask", id, version, question: request };
  }

  #isWelcome(id: string): boolean {
    const isSame = this.#state.phase !== "introduced" || this.#state.id === id;
    return isSame && id !== this.#own.id && this.#own.peers.includes(id);
  }

  #howdy(nonce: string): IncomingAction {
    const { id, version } = this.#own;
    return { type: "reply", reply: { type: "howdy", nonce, id, version } };
  }
}

function authenticate({ token, nonce }: Extract<RelayRequest, { type: "auth" }>): IncomingAction {
  return { type: "authenticate", token, nonce };
}

function refuse(fault: LineFault): IncomingAction {
  return { type: "refuse", fault };
}
