import { afterEach, describe, expect, it, vi } from "vitest";
import { AdmissionQueue, AdmissionTimeoutError, type Arrival, type Release } from "../../src/front/limits/admission.ts";

const LIMITS = { maxInFlight: 2, maxTurnMs: 20_000, maxWaitMs: 10_000 };

/** Everybody who has arrived, and the order in which they were let in. */
class Door {
  readonly queue = new AdmissionQueue(LIMITS);
  readonly entered: string[] = [];
  readonly #releases = new Map<string, Release>();

  constructor() {
    doors.push(this);
  }

  async arrive(name: string, arrival: Partial<Arrival> = {}) {
    const release = await this.queue.enter({ isResuming: false, address: "a", ...arrival });
    this.entered.push(name);
    this.#releases.set(name, release);
  }

  async isDone(name: string): Promise<void> {
    this.#releases.get(name)?.();
    await settled();
  }

  /** Lets everybody in who still waits: nobody is refused after the story has ended. */
  async close(): Promise<void> {
    while (this.queue.waiting > 0) for (const name of this.entered) await this.isDone(name);
  }
}

const doors: Door[] = [];

afterEach(async () => {
  for (const door of doors.splice(0)) await door.close();
});

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

describe("the queue at the front door", () => {
  it("lets in as many at a time as it may, and the next when one is done", async () => {
    const door = new Door();
    for (const name of ["a", "b", "c", "d"]) void door.arrive(name);
    await settled();
    expect(door.entered).toEqual(["a", "b"]);
    expect([door.queue.inFlight, door.queue.waiting]).toEqual([2, 2]);
    await door.isDone("b");
    expect(door.entered).toEqual(["a", "b", "c"]);
    await door.isDone("a");
    expect(door.entered).toEqual(["a", "b", "c", "d"]);
    await door.isDone("c");
    await door.isDone("d");
    expect([door.queue.inFlight, door.queue.waiting]).toEqual([0, 0]);
  });

  it("lets in those that resume before new ones, each in the order of arrival", async () => {
    const door = new Door();
    for (const name of ["a", "b", "new 1", "new 2"]) void door.arrive(name);
    for (const name of ["back 1", "back 2"]) void door.arrive(name, { isResuming: true });
    await settled();
    for (const name of ["a", "b", "back 1", "back 2"]) await door.isDone(name);
    expect(door.entered).toEqual(["a", "b", "back 1", "back 2", "new 1", "new 2"]);
  });

  it("makes no more room when one says twice that it is done", async () => {
    const door = new Door();
    for (const name of ["a", "b", "c", "d"]) void door.arrive(name);
    await settled();
    await door.isDone("a");
    await door.isDone("a");
    expect(door.entered).toEqual(["a", "b", "c"]);
    expect(door.queue.inFlight).toBe(2);
  });

  it("forgets who hangs up while waiting, and tells the reason", async () => {
    const door = new Door();
    const leaving = new AbortController();
    for (const name of ["a", "b"]) void door.arrive(name);
    const left = door.arrive("left", { signal: leaving.signal }).catch((error: unknown) => error);
    void door.arrive("c");
    leaving.abort("hung up");
    expect(await left).toBe("hung up");
    expect(door.queue.waiting).toBe(1);
    await door.isDone("a");
    expect(door.entered).toEqual(["a", "b", "c"]);
  });

  it("lets nobody in who has hung up before", async () => {
    const door = new Door();
    const left = door.arrive("left", { signal: AbortSignal.abort("hung up") }).catch((error: unknown) => error);
    expect(await left).toBe("hung up");
    expect(door.queue.inFlight).toBe(0);
  });

  it("keeps the place of one that hangs up after it was let in, until it is done", async () => {
    const door = new Door();
    const leaving = new AbortController();
    void door.arrive("a", { signal: leaving.signal });
    for (const name of ["b", "c"]) void door.arrive(name);
    await settled();
    leaving.abort("hung up");
    await settled();
    expect(door.entered).toEqual(["a", "b"]);
    await door.isDone("a");
    expect(door.entered).toEqual(["a", "b", "c"]);
  });

  it("refuses one that has waited too long, and lets in the others", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const door = new Door();
      for (const name of ["a", "b"]) void door.arrive(name);
      const late = door.arrive("late", { isResuming: true }).catch((error: unknown) => error);
      vi.advanceTimersByTime(5_000);
      void door.arrive("c");
      vi.advanceTimersByTime(5_000);
      expect(await late).toBeInstanceOf(AdmissionTimeoutError);
      expect(door.queue.waiting).toBe(1);
      await door.isDone("a");
      vi.advanceTimersByTime(60_000);
      expect(door.entered).toEqual(["a", "b", "c"]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("does not keep others waiting for one that takes long", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    try {
      const queue = new AdmissionQueue({ ...LIMITS, maxTurnMs: 100 });
      const arrival = { isResuming: false, address: "a" };
      const [slow, quick] = [await queue.enter(arrival), await queue.enter(arrival)];
      quick();
      vi.advanceTimersByTime(99);
      expect(queue.inFlight).toBe(1);
      vi.advanceTimersByTime(1);
      expect(queue.inFlight).toBe(0);
      slow();
      expect(queue.inFlight).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it("takes turns by address, among those that resume and among new ones", async () => {
    const door = new Door();
    for (const name of ["a", "b"]) void door.arrive(name);
    for (const isResuming of [false, true]) {
      const kind = isResuming ? "back" : "new";
      for (const name of ["1", "2", "3"]) void door.arrive(`many ${kind} ${name}`, { address: "many", isResuming });
      for (const name of ["x", "y"]) void door.arrive(`${name} ${kind}`, { address: name, isResuming });
      void door.arrive(`x ${kind} again`, { address: "x", isResuming });
    }
    await settled();
    const order = ["back", "new"].flatMap((kind) => [
      `many ${kind} 1`,
      `x ${kind}`,
      `y ${kind}`,
      `many ${kind} 2`,
      `x ${kind} again`,
      `many ${kind} 3`,
    ]);
    for (const name of ["a", "b", ...order]) await door.isDone(name);
    expect(door.entered.slice(2)).toEqual(order);
  });

  describe("after a refused resume", () => {
    const back = { isResuming: true, address: "guesser" };

    it("lets others that resume from its address wait with new ones, and no other address", async () => {
      const door = new Door();
      for (const name of ["a", "b"]) void door.arrive(name);
      void door.arrive("guess 1", back);
      void door.arrive("guess 2", back);
      void door.arrive("new");
      await settled();
      door.queue.resumeRefused("guesser");
      void door.arrive("guess 3", back);
      void door.arrive("back", { isResuming: true, address: "other" });
      await settled();
      for (const name of ["a", "b", "back", "new", "guess 1", "guess 2", "guess 3"]) await door.isDone(name);
      expect(door.entered.slice(2)).toEqual(["back", "new", "guess 1", "guess 2", "guess 3"]);
    });

    it("believes the address again when another of its clients is back", async () => {
      const door = new Door();
      for (const name of ["a", "b", "new 1", "new 2"]) void door.arrive(name);
      void door.arrive("back 1", back);
      await settled();
      door.queue.resumeRefused("guesser");
      door.queue.resumed("guesser");
      void door.arrive("back 2", back);
      await settled();
      for (const name of ["a", "b", "back 1", "back 2"]) await door.isDone(name);
      expect(door.entered.slice(2)).toEqual(["back 1", "back 2", "new 1", "new 2"]);
    });

    it("believes the address again after a while", async () => {
      vi.useFakeTimers({ toFake: ["performance"] });
      try {
        const door = new Door();
        for (const name of ["a", "b", "new 1", "new 2"]) void door.arrive(name);
        door.queue.resumeRefused("guesser");
        vi.advanceTimersByTime(10_001);
        void door.arrive("back", back);
        await settled();
        for (const name of ["a", "b"]) await door.isDone(name);
        expect(door.entered.slice(2)).toEqual(["back", "new 1"]);
      } finally {
        vi.useRealTimers();
      }
    });

    it("still forgets who hangs up while waiting", async () => {
      const door = new Door();
      const leaving = new AbortController();
      for (const name of ["a", "b"]) void door.arrive(name);
      void door.arrive("guess", { ...back, signal: leaving.signal }).catch(() => {});
      door.queue.resumeRefused("guesser");
      leaving.abort("hung up");
      await settled();
      expect(door.queue.waiting).toBe(0);
    });
  });
});
