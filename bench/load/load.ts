import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Answer, Ask, Work } from "./work.ts";

const PROGRAM = fileURLToPath(new URL("process.ts", import.meta.url));

/** A process of clients, so that neither the server nor what measures it pays for them. */
export class Load implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor() {
    this.#child = fork(PROGRAM, { serialization: "advanced" });
    this.#ended = once(this.#child, "exit");
  }

  async run<W extends Work>(ask: Ask<W>): Promise<Answer<W>> {
    this.#child.send(ask);
    const answered = once(this.#child, "message") as Promise<[{ readonly answer: Answer<W> }]>;
    const reply = await Promise.race([answered, this.#ended.then(() => undefined)]);
    if (!reply) throw new Error(`the clients failed (${ask.work}): see above`);
    return reply[0].answer;
  }

  /** Cuts every connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    await this.#ended;
  }
}
