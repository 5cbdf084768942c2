import { REFUSAL_HEADER } from "../../core/protocols/carrier/refusal.ts";
import { CLOSE } from "../../core/session/wire/protocol.ts";
import { logged } from "../../log.ts";
import type { Arrival, ClientArrival, SocketRefusal, Sockets, Upgraded } from "../../service.ts";
import type { Env } from "../env.ts";
import { openRelay } from "../transports/relay.ts";
import { openSession, resumeSession } from "../transports/session.ts";

/** Sockets end at the object of their session, or at the relay: the Worker is not in between. */
export class CloudflareSockets implements Sockets {
  readonly #env: Env;

  constructor(env: Env) {
    this.#env = env;
  }

  async upgrade(_request: Request, arrival: Arrival, headers: Headers): Promise<Upgraded | SocketRefusal> {
    if (arrival.type === "client") return this.#openSession(arrival, headers);
    const reply = await openRelay(this.#env, arrival).catch(logged("relay_unreachable"));
    return reply?.webSocket ? upgraded(reply.webSocket, headers) : { status: "unavailable" };
  }

  async #openSession({ entry, credential }: ClientArrival, headers: Headers): Promise<Upgraded | SocketRefusal> {
    const opening = credential ? resumeSession(this.#env, entry, credential) : openSession(this.#env, entry);
    const reply = await opening.catch(logged("session_unreachable"));
    if (reply?.webSocket) return upgraded(reply.webSocket, headers);
    const refusal = reply?.headers.get(REFUSAL_HEADER) ?? "unavailable";
    if (refusal === "session_gone") {
      headers.set(REFUSAL_HEADER, refusal);
      return upgraded(closedSocket(CLOSE.gone), headers);
    }
    if (refusal === "session_in_use") return upgraded(closedSocket(CLOSE.inUse), headers);
    return { status: refusal as SocketRefusal["status"] };
  }
}

function upgraded(webSocket: WebSocket, headers: Headers): Upgraded {
  return { status: "upgraded", response: new Response(null, { status: 101, webSocket, headers }) };
}

function closedSocket(code: number): WebSocket {
  const { 0: theirs, 1: ours } = new WebSocketPair();
  ours.accept();
  ours.close(code);
  return theirs;
}
