import type { Outcome } from "../../src/core/protocols/statuses.ts";
import type { KeyRequest } from "../../src/core/session/key-calls.ts";
import { PolledHost, type Reply } from "./polled-host.ts";
import { Lane } from "./schedule.ts";
import type { World } from "./world.ts";

/**
 * A client without a socket: takes one lock at a time, at once or in two phases. Now and then it hangs up, or asks the
 * same `wait` twice.
 */
export class PolledClient {
  readonly name: string;
  readonly #world: World;
  readonly #keys: readonly string[];
  #session: PolledHost | undefined;
  #sessions = 0;
  #lastId = 0;
  readonly #asked = new Set<string>();
  #held: { readonly key: string; readonly token: string } | undefined;
  /** The key on which it has a place, as far as it knows. */
  #place: string | undefined;
  /** A request failed: it may wait at its key until that finds out. */
  #isInDoubt = false;
  #isLeaving = false;
  #hasLeft = false;

  constructor(world: World, name: string, keys: readonly string[]) {
    this.#world = world;
    this.name = name;
    this.#keys = keys;
  }

  get unanswered(): readonly string[] {
    return [...this.#asked].map((asked) => `${this.name} ${asked}`);
  }

  /** The session it has, and for how many locks it waits there. */
  get place(): { readonly session: string; readonly count: number } | undefined {
    if (!this.#session || this.#isInDoubt) return undefined;
    return {
      session: this.#session.name,
      count: this.#asked.size + (this.#place === undefined ? 0 : 1),
    };
  }

  /** Does the next thing, unless something is under way. */
  act(): void {
    const { schedule } = this.#world;
    if (this.#hasLeft || this.#asked.size > 0) return;
    if (!this.#session) {
      if (this.#isLeaving) this.#hasLeft = true;
      else this.#open();
      return;
    }
    if (this.#held) this.#release(this.#held);
    else if (this.#isLeaving) this.#end(this.#session);
    else {
      const key = schedule.pick(this.#keys) as string;
      const [waitSeconds, leaseSeconds] = [schedule.pick([0, 2, 20, 900]) ?? 0, schedule.pick([1, 5, 10]) ?? 1];
      const limit = key.startsWith("pool") ? 2 : 1;
      if (this.#place !== undefined) this.#waitOnceOrTwice(this.#place, waitSeconds);
      else if (schedule.happens(0.3)) this.#enqueue({ type: "enqueue", key, limit, leaseSeconds });
      else this.#acquire({ type: "acquire", key, limit, waitSeconds, leaseSeconds });
    }
  }

  leave(): void {
    this.#isLeaving = true;
    this.act();
  }

  believesIn(key: string, fence: string): boolean {
    return this.#held?.key === key && this.#held.token.startsWith(fence);
  }

  vanish(): void {
    this.#world.tell(`${this.name} vanishes`);
    this.#hasLeft = true;
    this.#asked.clear();
    for (const hangUp of [...this.#hangUps]) hangUp();
  }

  readonly #hangUps = new Set<() => void>();

  #open(): void {
    this.#sessions += 1;
    const session = new PolledHost(this.#world, `http:${this.name}${this.#sessions}`);
    this.#asked.add("open");
    this.#soon(() =>
      session.open((isOpen) =>
        this.#soon(() => {
          this.#asked.delete("open");
          if (!isOpen) return;
          this.#session = session;
          this.#isInDoubt = false;
          this.#place = undefined;
        }),
      ),
    );
  }

  #end(session: PolledHost): void {
    this.#asked.add("end");
    this.#soon(() =>
      session.end(() =>
        this.#soon(() => {
          this.#asked.delete("end");
          this.#session = undefined;
          this.#hasLeft = true;
        }),
      ),
    );
  }

  #release({ key, token }: { readonly key: string; readonly token: string }): void {
    this.#held = undefined;
    this.#request({ type: "release", key, token }, () => {});
  }

  #enqueue(request: KeyRequest): void {
    const { key } = request;
    this.#request(request, (reply) => {
      if (typeof reply !== "object") return;
      if (reply.status === "queued" || reply.status === "already_enqueued") this.#place = key;
      this.#comeUp(key, reply);
      // It knows the token already, and will be told it again.
      if (reply.token !== undefined && this.#world.schedule.happens(0.5)) this.#wait(key, 5);
    });
  }

  get #isWaiting(): boolean {
    return [...this.#asked].some((asked) => asked.startsWith("wait"));
  }

  #waitOnceOrTwice(key: string, waitSeconds: number): void {
    const { schedule } = this.#world;
    const isTwice = schedule.happens(0.5);
    this.#wait(key, waitSeconds);
    if (isTwice)
      schedule.after(schedule.between(1, 25), () => {
        if (this.#session && !this.#hasLeft && this.#asked.size > 0) this.#wait(key, waitSeconds);
      });
  }

  #wait(key: string, waitSeconds: number): void {
    this.#request({ type: "wait", key, waitSeconds }, (reply) => {
      if (typeof reply !== "object") return;
      const isOver = reply.status !== "unavailable" && reply.status !== "error";
      if (isOver && !this.#isWaiting) this.#place = undefined;
      this.#comeUp(key, reply);
    });
  }

  #comeUp(key: string, { token }: Outcome): void {
    if (token === undefined) return;
    this.#world.checks.granted(`${this.#session?.name}.place at ${key} ${token}`, key, token);
    this.#held = { key, token };
  }

  #acquire(request: KeyRequest): void {
    this.#request(request, (reply, id) => {
      if (typeof reply !== "object" || reply.token === undefined) return;
      this.#world.checks.granted(`${this.#session?.name}.${id}`, request.key, reply.token);
      this.#held = { key: request.key, token: reply.token };
    });
  }

  #request(request: KeyRequest, done: (reply: Reply, id: string) => void): void {
    const { schedule } = this.#world;
    const session = this.#session as PolledHost;
    this.#lastId += 1;
    const id = `${this.name}${this.#lastId}`;
    const { key } = request;
    let isParked = false;
    let isThere = true;
    /** The Worker has what it takes for the answer. */
    let isOver = false;
    const asked = `${request.type} ${id}`;
    this.#asked.add(asked);
    this.#world.tell(`${this.name} asks ${request.type} ${key} as ${id}`);
    const mayHold = request.type !== "release";
    const withdraw = () => session.withdraw(id, key, { hasLeft: !isThere && request.type === "wait" });
    const hangUp = () => {
      isThere = false;
      this.#hangUps.delete(hangUp);
      this.#soon(() => {
        if (isParked) session.pollClosed(id, false);
        else if (mayHold) withdraw();
      });
    };
    this.#hangUps.add(hangUp);
    /** Who does not wait for the answer to a `wait` gives up its place, unless another one has it. */
    const leave = () => {
      this.#asked.delete(asked);
      if (request.type === "wait" && !this.#isWaiting) this.#place = undefined;
    };
    const hangUpWithin = (ms: number) => {
      if (this.#isLeaving) return;
      schedule.after(schedule.between(1, ms), () => {
        if (!isThere) return;
        this.#world.tell(`${this.name} hangs up on ${id}`);
        hangUp();
        leave();
      });
    };
    const hear = (reply: Reply) => {
      if (reply === "parked") {
        isParked = true;
        if (!isThere) session.pollClosed(id, false);
        else if (schedule.happens(0.3)) hangUpWithin(3_000);
        return;
      }
      if (reply === "waits" && isThere) {
        if (schedule.happens(0.9)) session.poll(id, hearLater);
        else {
          this.#world.tell(`${this.name} and its Worker end, and do not poll for ${id}`);
          isThere = false;
          this.#hangUps.delete(hangUp);
          leave();
        }
        return;
      }
      // The Worker has the answer: it reaches the client, or the client has left.
      if (isOver) return;
      isOver = true;
      const isUnknown = reply === "lost" || reply === "failed";
      if (isParked && !isUnknown) session.pollClosed(id, isThere);
      else if (mayHold && (isUnknown || (!isThere && reply !== "gone"))) withdraw();
      if (!isThere) return;
      isThere = false;
      this.#hangUps.delete(hangUp);
      this.#asked.delete(asked);
      this.#world.tell(`${this.name} hears ${typeof reply === "string" ? reply : reply.status} for ${id}`);
      if (reply === "gone") this.#session = undefined;
      if (reply === "failed" || reply === "lost") this.#isInDoubt = true;
      done(reply, id);
      if (this.#isLeaving) this.act();
    };
    // A poll is answered on the connection that it was parked on.
    const replies = new Lane(schedule);
    const hearLater = (reply: Reply) => replies.send(this.#world.delay(), () => hear(reply));
    this.#soon(() => session.request(id, request, hearLater));
    if (mayHold && schedule.happens(0.15)) hangUpWithin(schedule.pick([40, 400]) ?? 0);
  }

  #soon(call: () => void): void {
    this.#world.schedule.after(this.#world.delay(), call);
  }
}
