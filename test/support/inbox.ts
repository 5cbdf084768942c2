/** What a connection has received and nobody has looked at yet: lines in order, then at most one end. */
export type Arrival =
  | { readonly kind: "line"; readonly line: string }
  | { readonly kind: "end"; readonly code: number | undefined; readonly at: number }
  | { readonly kind: "violation"; readonly problem: string };

export class Inbox {
  private arrivals: Arrival[] = [];
  private taken = 0;
  private wake: (() => void) | undefined;
  private hasEnded = false;

  add(arrival: Arrival): void {
    if (this.hasEnded) return;
    if (arrival.kind === "end") this.hasEnded = true;
    this.arrivals.push(arrival);
    this.wake?.();
  }

  /** The oldest arrival, or undefined when none comes within `ms`. One reader at a time. */
  async take(ms: number): Promise<Arrival | undefined> {
    const waiting = this.oldest();
    if (waiting) return waiting;
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
    return this.oldest();
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
