/**
 * State of the connection. `connecting`: the first attempt is in progress; `connected`: a new session has begun, with
 * nothing held; `reconnecting`: there is no connection; `resumed`: the session goes on, with its locks and places in
 * queues; `closed`: the client is closed.
 */
export type Status = "connecting" | "connected" | "reconnecting" | "resumed" | "closed";

interface StatusNode {
  readonly status: Status | undefined;
  readonly next: Promise<StatusNode>;
  readonly follow: (node: StatusNode) => void;
}

function nodeOf(status: Status | undefined): StatusNode {
  let follow: StatusNode["follow"] = () => {};
  const next = new Promise<StatusNode>((resolve) => {
    follow = resolve;
  });
  return { status, next, follow };
}

/** The connection's status for any number of readers. A reader that stops is garbage after the next change. */
export class StatusFeed {
  #last = nodeOf(undefined);

  get now(): Status {
    return this.#last.status ?? "connecting";
  }

  tell(status: Status): void {
    if (this.#last.status === status || this.#last.status === "closed") return;
    const node = nodeOf(status);
    this.#last.follow(node);
    this.#last = node;
  }

  /** The current status, if known, then every change, until the client is closed. */
  read(): AsyncIterableIterator<Status> {
    let next: Promise<StatusNode | undefined> = this.#last.status ? Promise.resolve(this.#last) : this.#last.next;
    let stop: (nothing: undefined) => void = () => {};
    const stopped = new Promise<undefined>((resolve) => {
      stop = resolve;
    });
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      async next() {
        const coming = next;
        next = coming.then((node) => (node?.status === "closed" ? undefined : node?.next));
        const value = (await Promise.race([coming, stopped]))?.status;
        return value ? { done: false, value } : { done: true, value: undefined };
      },
      // May be called while `next` is pending, for example when an effect is cleaned up.
      async return() {
        next = stopped;
        stop(undefined);
        return { done: true, value: undefined };
      },
    };
  }
}
