/** `resumed`: the session goes on, with its locks and places; `connected`: a new one has begun. */
export type Status = "connected" | "reconnecting" | "resumed" | "closed";

interface Chapter {
  readonly status: Status | undefined;
  readonly next: Promise<Chapter>;
  readonly follow: (chapter: Chapter) => void;
}

function chapterOf(status: Status | undefined): Chapter {
  let follow: Chapter["follow"] = () => {};
  const next = new Promise<Chapter>((resolve) => {
    follow = resolve;
  });
  return { status, next, follow };
}

/** How the connection fares, for any number of readers. One that stops reading leaves nothing behind. */
export class StatusStory {
  #last = chapterOf(undefined);

  tell(status: Status): void {
    if (this.#last.status === status || this.#last.status === "closed") return;
    const chapter = chapterOf(status);
    this.#last.follow(chapter);
    this.#last = chapter;
  }

  /** First how things stand, if that is known, then every change, until the client is closed. */
  async *read(): AsyncGenerator<Status, void, undefined> {
    for (let chapter = this.#last; ; chapter = await chapter.next) {
      if (chapter.status) yield chapter.status;
      if (chapter.status === "closed") return;
    }
  }
}
