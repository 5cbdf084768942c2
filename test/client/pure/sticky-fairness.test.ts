/** Clients that keep a lock for themselves, on the session core and the engine, in virtual time. */
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { connect, type Lock, type Locks } from "../../../src/client/index.ts";
import { CoreService } from "./core-service.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { Wire } from "./fake-network.ts";

const RUNS = 150;

interface Member {
  readonly name: string;
  readonly locks: Locks;
  readonly isSticky: boolean;
  /** It has read that somebody else waits, and has not lost the lock since. */
  isWanted: boolean;
}

it(
  "never two callbacks at a time, none begins on a lock that somebody else is known to want, and everybody is served",
  async () => {
    vi.spyOn(Math, "random").mockReturnValue(0.5);
    const choices = fc.array(fc.nat({ max: 30 }), { minLength: 60, maxLength: 120, size: "max" });
    const stickiness = fc.array(fc.boolean(), { minLength: 2, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(stickiness, choices, async (kinds, which) => {
        const clock = new FakeClock();
        const service = new CoreService(clock);
        const travelling: { readonly label: string; readonly arrive: () => void }[] = [];
        const running: { readonly name: string; readonly fence: string; readonly end: () => void }[] = [];
        const served = new Map<string, number>();
        const members = kinds.map((isSticky, index): Member => {
          const name = `c${index}`;
          const member: Member = { name, isSticky, isWanted: false, locks: undefined as never };
          const carry = (label: string, arrive: () => void) => {
            const isNews = label.startsWith(`${name} <`) && label.includes("wanted");
            const isOver = label.startsWith(`${name} >`) && / r\\n/.test(label);
            if (isOver) member.isWanted = false;
            travelling.push({
              label,
              arrive: () => {
                arrive();
                if (isNews) member.isWanted = true;
              },
            });
          };
          const wire = new Wire(service, name, carry);
          return Object.assign(member, { locks: connect("ws://service", { clock, WebSocket: wire.WebSocket }) });
        });
        // Each client has two callers that want the lock again and again.
        let isOver = false;
        const caller = async (member: Member) => {
          while (!isOver)
            await member.locks.request("key", { sticky: member.isSticky, maxIdle: 600_000 }, (lock: Lock) => {
              if (running.length > 0) throw new Error("two callbacks at a time");
              if (!lock.isHeld) throw new Error("a callback without its lock");
              const last = served.get(lock.fence) ?? 0;
              if (member.isWanted && last > 0) throw new Error("a callback begins though somebody else waits");
              served.set(lock.fence, last + 1);
              served.set(member.name, (served.get(member.name) ?? 0) + 1);
              const { promise, resolve } = Promise.withResolvers<void>();
              running.push({ name: member.name, fence: lock.fence, end: resolve });
              return promise;
            });
        };
        const callers = members.flatMap((member) => [caller(member), caller(member)]);
        const faults: unknown[] = [];
        for (const each of callers) each.catch((error) => faults.push(error));
        const step = async (isEnd: boolean, choice: number) => {
          const [thing] = isEnd ? [] : travelling.splice(choice % Math.max(1, travelling.length), 1);
          if (isEnd) running.pop()?.end();
          thing?.arrive();
          await settled();
          if (faults.length > 0) throw faults[0];
        };
        for (const choice of which) await step(choice % 5 === 0, choice);
        // From here on everything arrives and every callback ends: nobody is left out.
        served.clear();
        for (let count = 0; count < 400; count += 1) await step(count % 3 === 0, 0);
        for (const { name } of members) expect(served.get(name) ?? 0).toBeGreaterThan(3);
        isOver = true;
        while (running.length > 0) running.pop()?.end();
        await settled();
        for (const { locks } of members) void locks.close();
      }),
      { numRuns: RUNS },
    );
    vi.restoreAllMocks();
  },
  RUNS * 500,
);
