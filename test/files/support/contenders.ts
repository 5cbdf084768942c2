import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Order, Report } from "../programs/contender.ts";

const PROGRAM = fileURLToPath(new URL("../programs/contender.ts", import.meta.url));

class Contender {
  readonly #child: ChildProcess;
  readonly #reports: AsyncIterator<string>;

  constructor(stopShare: number) {
    this.#child = spawn(process.execPath, [PROGRAM, String(stopShare)], { stdio: ["pipe", "pipe", "inherit"] });
    if (!this.#child.stdout) throw new Error("no pipe to the contender");
    this.#reports = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  async send(order: Order): Promise<Report> {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`);
    const { value, done } = await this.#reports.next();
    return done ? { kind: "failed", why: "the contender ended" } : (JSON.parse(value) as Report);
  }

  end(): void {
    this.#child.kill("SIGKILL");
  }
}

/** Processes that live as long as the test file, and contend in many rounds. */
export class Contenders implements Disposable {
  readonly #all: readonly Contender[];

  constructor(count: number, stopShare: number) {
    this.#all = Array.from({ length: count }, () => new Contender(stopShare));
  }

  /** All get their order at the same time. Resolves with all reports. */
  send(orderOf: (index: number) => Order): Promise<Report[]> {
    return Promise.all(this.#all.map((contender, index) => contender.send(orderOf(index))));
  }

  [Symbol.dispose](): void {
    for (const contender of this.#all) contender.end();
  }
}
