import { type Clock, systemClock } from "../../../client/clock.ts";
import type { Socket, SocketConstructor } from "../../../client/index.ts";

/**
 * Freezes one client like a stopped process, while the page runs on: its timers do not fire, and it neither reads nor
 * sends. Its clocks go on, and its socket stays open, so the service only sees silence.
 */
export class Pause {
  #held: (() => void)[] | undefined;

  get isPaused(): boolean {
    return this.#held !== undefined;
  }

  pause(): void {
    this.#held ??= [];
  }

  /** Runs everything that was due meanwhile, in order. */
  resume(): void {
    const due = this.#held ?? [];
    this.#held = undefined;
    for (const call of due) call();
  }

  /** Calls now, or after `resume`. */
  run(call: () => void): void {
    if (this.#held) this.#held.push(call);
    else call();
  }

  readonly clock: Clock = {
    wall: systemClock.wall,
    steady: systemClock.steady,
    after: (ms, call) => {
      let isCancelled = false;
      const cancel = systemClock.after(ms, () => this.run(() => isCancelled || call()));
      return () => {
        isCancelled = true;
        cancel();
      };
    },
  };

  get WebSocket(): SocketConstructor {
    const pause = this;
    return class implements Socket {
      readonly #socket: WebSocket;

      constructor(url: string, protocols: string[]) {
        this.#socket = new WebSocket(url, protocols);
      }

      send(text: string): void {
        pause.run(() => this.#socket.send(text));
      }

      /** Browsers complain in their console about a socket that is closed before it is open (Chromium 153). */
      close(code?: number): void {
        if (this.#socket.readyState !== WebSocket.CONNECTING) this.#socket.close(code);
        else this.#socket.addEventListener("open", () => this.#socket.close(code));
      }

      addEventListener(type: string, listener: (event: never) => void): void {
        this.#socket.addEventListener(type, (event) => pause.run(() => listener(event as never)));
      }
    };
  }
}
