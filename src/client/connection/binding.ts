import { BROKEN } from "../wire.ts";
import type { Socket, SocketConstructor } from "./socket.ts";

/** A service binding of a Worker, in place of an address. */
export interface Binding {
  /** Resolves with the answer to a request, which for an upgrade has a socket. */
  fetch(url: string, init: { headers: Record<string, string> }): Promise<Upgrade>;
}

interface Upgrade {
  readonly status: number;
  readonly webSocket?: unknown;
}

export function isBinding(value: unknown): value is Binding {
  return typeof (value as Partial<Binding> | null)?.fetch === "function";
}

type Listen = [type: string, listener: (event: never) => void];
type Accepted = Pick<Socket, "send" | "close"> & { accept(): void; addEventListener(...listen: Listen): void };

/** Makes sockets of the upgrades that the binding's other end answers. */
export function socketsOf(binding: Binding): SocketConstructor {
  return class implements Socket {
    /** Undefined until it is open. */
    #socket: Accepted | undefined;
    readonly #listeners: Listen[] = [];
    #closedWith: number | undefined;

    constructor(url: string, protocols: string[]) {
      const headers = { Upgrade: "websocket", "Sec-WebSocket-Protocol": protocols.join() };
      binding.fetch(url.replace("ws", "http"), { headers }).then(
        ({ status, webSocket }) =>
          webSocket ? this.#opened(webSocket as Accepted) : this.#failed({ message: `no upgrade, but ${status}` }),
        (error) => this.#failed({ error }),
      );
    }

    send(text: string): void {
      this.#socket?.send(text);
    }

    close(code: number): void {
      this.#closedWith = code;
      this.#socket?.close(code);
    }

    addEventListener(...listen: Listen): void {
      if (this.#socket) this.#socket.addEventListener(...listen);
      else this.#listeners.push(listen);
    }

    #opened(socket: Accepted): void {
      this.#socket = socket;
      for (const listen of this.#listeners) socket.addEventListener(...listen);
      socket.accept();
      if (this.#closedWith === undefined) this.#tell("open");
      else socket.close(this.#closedWith);
    }

    #failed(why: object): void {
      this.#tell("error", why);
      this.#tell("close", { code: BROKEN });
    }

    #tell(about: string, event = {}): void {
      for (const [type, listener] of this.#listeners) if (type === about) listener(event as never);
    }
  };
}
