/** What a connection has received and nobody has looked at yet: lines in order, then at most one end. */
type Received =
  | { readonly kind: "line"; readonly line: string }
  | { readonly kind: "end"; readonly code: number | undefined }
  | { readonly kind: "violation"; readonly problem: string };

/** `at` is when it was read; it may have arrived earlier. */
export type Arrival = Received & { readonly at: number };

export class Inbox {
  private arrivals: Arrival[] = [];
  private taken = 0;
  private wake: (() => void) | undefined;
  private hasEnded = false;

  add(received: Received): void {
    if (this.hasEnded) return;
    if (received.kind === "end") this.hasEnded = true;
    this.arrivals.push({ ...received, at: performance.now() });
    this.wake?.();
  }

  /** The oldest arrival, or undefined when none comes within `ms`. One reader at a time. */
  async take(ms: number): Promise<Arrival | undefined> {
    await this.arrival(ms);
    return this.oldest();
  }

  /**
   * What arrives before this time, if anything does. What is read later counts as later, even if this process stalled
   * meanwhile: it is left for the next reader.
   */
  async takeBefore(time: number): Promise<Arrival | undefined> {
    const ms = time - performance.now();
    if (ms > 0) await this.arrival(ms);
    const next = this.arrivals[this.taken];
    return next && next.at < time ? this.oldest() : undefined;
  }

  /** Resolves when there is something to look at, or after `ms`. */
  private async arrival(ms: number): Promise<void> {
    if (this.taken < this.arrivals.length) return;
    if (this.wake) throw new Error("two readers on one connection");
    await new Promise<void>((resolve) => {
      // After a stall, Node fires timers before it reads sockets: read first what has arrived meanwhile.
      const timer = setTimeout(() => setImmediate(resolve), ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.wake = undefined;
  }

  /** Like `shift`, which is slow on an array of a hundred thousand. */
  private oldest(): Arrival | undefined {
    const arrival = this.arrivals[this.taken];
    if (arrival) this.taken += 1;
    else {
      this.arrivals = [];
      this.taken = 0;
    }
    return arrival;
  }
}
