import { describe, expect, it } from "vitest";
import { ConnectionError, type Ticket } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { CREDENTIAL, freshToken, held, type World, world } from "./fake-service.ts";

async function placed({ service, locks }: World): Promise<Ticket> {
  const asked = locks.enqueue("place");
  await settled();
  await service.answer(service.last("e"), "queued");
  return asked;
}

describe("a lost connection", () => {
  it("is replaced soon, in the same session, and everything unanswered is sent again under its tag", async () => {
    const { clock, service, locks } = await world();
    const asked = [locks.acquire("a"), locks.acquire("b", { limit: 2 })];
    await settled();
    const before = [...service.frames];
    service.socket.lose();
    await clock.pass(150);
    expect(service.sockets[1]?.protocols).toEqual(["dflockd.v2", `holdfast.resume.${CREDENTIAL}`]);
    expect(service.frames).toEqual([...before, ...before]);
    for (const frame of before) await service.answer(frame, `ok ${freshToken()} 33`);
    for (const each of asked) expect((await each).isHeld).toBe(true);
    const [watches, asksAgain] = service.sockets[1]?.sent ?? [];
    expect(asksAgain).toMatch(/^@\w+ session\n_\nresume\n$/);
    expect(watches).toMatch(/^@\w+ watch\n_\ntaken\n$/);
  });

  it("that is not replaced within the grace gives up its turn to be let in, and is replaced later", async () => {
    const { clock, service } = await world();
    service.welcome = "silence";
    service.socket.lose();
    await clock.pass(9_000);
    expect(service.sockets).toHaveLength(2);
    expect(service.sockets[1]?.closedWith).toBeUndefined();
    await clock.pass(1_000);
    expect(service.sockets[1]?.closedWith).toBe(4412);
    service.welcome = "session";
    await clock.pass(5_000);
    expect(service.sockets[2]?.protocols).toContain(`holdfast.resume.${CREDENTIAL}`);
    expect(service.sockets[2]?.closedWith).toBe(1000);
    expect(service.sockets[3]?.protocols).toEqual(["dflockd.v2"]);
  });

  it("is replaced with one message: after a restart everybody is back at once", async () => {
    const { clock, service } = await world();
    service.socket.lose();
    await clock.pass(1_000);
    expect(service.sockets).toHaveLength(2);
    expect(service.socket.messages).toBe(1);
  });

  it("never gives a tag to a second request", async () => {
    const { clock, service, locks } = await world();
    service.reply = () => "error";
    for (let round = 0; round < 50; round += 1) {
      await locks.acquire(`k${round}`).catch(() => {});
      if (round % 10 === 9) {
        service.socket.lose();
        await clock.pass(3_000);
      }
    }
    const tags = service.sockets.flatMap(({ sent }) => sent.map((text) => /^@(\S+) /.exec(text)?.[1]));
    expect(new Set(tags).size).toBe(tags.length);
  });

  it("makes every held lock ask for its fate as soon as the session is back", async () => {
    const here = await world();
    const [kept, lost] = [await held(here), await held(here)];
    here.service.reply = ({ command, arg }) =>
      command === "n" ? (arg.startsWith(kept.token) ? "ok 30" : "error") : undefined;
    here.service.socket.lose();
    await here.clock.pass(150);
    const asked = here.service.frames.filter(({ command }) => command === "n").map(({ arg }) => arg.split(" ")[0]);
    // Who is told that he has lost it asks once more.
    expect(asked).toEqual([kept.token, lost.token, lost.token]);
    expect(kept.isHeld).toBe(true);
    expect((await lost.lost).reason).toBe("expired");
  });

  it("costs no lock that the service keeps, within the grace", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 300 });
    here.service.welcome = "unreachable";
    here.service.socket.lose();
    await here.clock.pass(8_500);
    expect(lock.isHeld).toBe(true);
    here.service.welcome = "session";
    await here.clock.pass(1_000);
    await here.service.answer(here.service.last("n"), "ok 300");
    expect(lock.isHeld).toBe(true);
  });

  it("is not given up while the service is busy with others who come back too", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 300 });
    here.service.welcome = "silence";
    here.service.socket.lose();
    await here.clock.pass(9_000);
    expect(here.service.sockets.length).toBe(2);
    here.service.welcome = "session";
    here.service.socket.open();
    await here.clock.pass(100);
    await here.service.answer(here.service.last("n"), "ok 300");
    expect(here.service.sockets.length).toBe(2);
    expect(lock.isHeld).toBe(true);
  });

  it("gives a new session's socket longer than a busy server lets a connection wait", async () => {
    const { clock, service } = await world();
    service.welcome = "silence";
    service.socket.lose(4410);
    await clock.pass(10_500);
    expect(service.sockets.length).toBe(2);
    await clock.pass(1_500);
    expect(service.sockets.length).toBe(3);
  });

  it("sends nobody back at the same moment as all the others, and everybody at once", async () => {
    const returns = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const { clock, service } = await world();
        service.socket.lose();
        const lostAt = clock.steady();
        while (service.sockets.length < 2 && clock.steady() < lostAt + 1_000) await clock.pass(1);
        return clock.steady() - lostAt;
      }),
    );
    expect(Math.max(...returns)).toBeLessThanOrEqual(101);
    expect(new Set(returns).size).toBeGreaterThan(10);
  });

  it("costs every lock when the grace is over: the service may have given it away", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 300 });
    const waiting = here.locks.acquire("other").catch((error) => error);
    await settled();
    here.service.welcome = "unreachable";
    await here.clock.pass(2_600);
    here.service.socket.lose();
    const lostAt = here.clock.steady();
    await here.clock.pass(9_900);
    const error = await lock.lost;
    expect(error.reason).toBe("disconnected");
    expect(here.clock.steady() - lostAt).toBeLessThanOrEqual(10_000);
    expect(await waiting).toBeInstanceOf(ConnectionError);
  });

  it("costs a lock with a short lease when that ends", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 3 });
    here.service.welcome = "unreachable";
    here.service.socket.lose();
    await here.clock.pass(3_000);
    expect((await lock.lost).reason).toBe("disconnected");
  });

  it("that comes back after the grace leaves the old session, with what was given up, and says that it begins anew", async () => {
    const here = await world();
    await held(here, { leaseS: 300 });
    here.locks.acquire("other").catch(() => {});
    const ticket = await placed(here);
    const story: string[] = [];
    void (async () => {
      for await (const status of here.locks.statuses()) story.push(status);
    })();
    await settled();
    here.service.welcome = "unreachable";
    here.service.socket.lose();
    await here.clock.pass(20_000);
    const early = here.locks.acquire("early");
    here.service.welcome = "session";
    await here.clock.pass(6_000);
    const [back, next] = here.service.sockets.slice(-2);
    expect(back?.protocols).toContain(`holdfast.resume.${CREDENTIAL}`);
    expect(back?.closedWith).toBe(1000);
    expect(next?.protocols).toEqual(["dflockd.v2"]);
    expect(story).toEqual(["connected", "reconnecting", "connected"]);
    await expect(ticket.wait()).rejects.toBeInstanceOf(ConnectionError);
    // What was asked for meanwhile, and nothing from before, is asked for in the new session.
    expect(here.service.last("l")).toMatchObject({ key: "early" });
    await here.service.answer(here.service.last("l"), `ok ${freshToken()} 33`);
    expect((await early).isHeld).toBe(true);
    expect(here.clock.timers).toBe(2);
    await here.locks.close();
    expect(here.clock.timers).toBe(0);
  });

  it("whose session is gone costs all locks and requests, and the next session begins with nothing", async () => {
    const here = await world();
    const lock = await held(here);
    const waiting = here.locks.acquire("other").catch((error) => error);
    await settled();
    here.service.welcome = "gone";
    here.service.socket.lose();
    await here.clock.pass(150);
    here.service.welcome = "session";
    expect((await lock.lost).reason).toBe("disconnected");
    expect(await waiting).toBeInstanceOf(ConnectionError);
    const frames = here.service.frames.length;
    await here.clock.pass(5_000);
    expect(here.service.socket.protocols).toEqual(["dflockd.v2"]);
    expect(here.service.frames.length).toBe(frames);
    expect((await held(here)).isHeld).toBe(true);
  });

  it("is tried again while the service believes in the old one", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 60 });
    here.service.reply = ({ command }) => (command === "n" ? "ok 60" : undefined);
    here.service.welcome = "in use";
    here.service.socket.lose();
    await here.clock.pass(2_000);
    expect(lock.isHeld).toBe(true);
    here.service.welcome = "session";
    await here.clock.pass(3_000);
    expect(here.service.socket.protocols).toHaveLength(2);
    expect(lock.isHeld).toBe(true);
  });

  it("costs everything at once where the service keeps no session beyond its socket", async () => {
    const here = await world();
    here.service.socket.lose();
    here.service.welcome = "gone";
    await here.clock.pass(200);
    here.service.welcome = "no resuming";
    await here.clock.pass(500);
    const lock = await held(here);
    here.service.socket.lose();
    expect((await lock.lost).reason).toBe("disconnected");
  });

  it("is tried for ever, at growing distances that no two clients share", async () => {
    const { clock, service } = await world();
    service.welcome = "unreachable";
    service.socket.lose();
    const times: number[] = [];
    let seen = service.sockets.length;
    for (let step = 0; step < 6_000; step += 1) {
      await clock.pass(10);
      if (service.sockets.length > seen) times.push(clock.steady());
      seen = service.sockets.length;
    }
    const pauses = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    expect(pauses[0]).toBeLessThan(250);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(5_010);
    expect(pauses.slice(-3).every((pause) => pause >= 2_490)).toBe(true);
    expect(new Set(pauses.slice(-4)).size).toBeGreaterThan(1);
  });

  it("that nobody notices is found out by the heartbeat, and replaced before the grace is over", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 60 });
    here.service.reply = ({ command }) => (command === "n" ? "ok 60" : undefined);
    await here.clock.pass(7_000);
    expect(here.service.socket.heartbeats).toBeGreaterThan(1);
    const [first] = here.service.sockets;
    here.service.socket.isBlackHole = true;
    await here.clock.pass(6_000);
    expect(here.service.sockets).toHaveLength(2);
    // Not a close that would end the session.
    expect(first?.closedWith).toBe(4412);
    expect(lock.isHeld).toBe(true);
    await here.clock.pass(60_000);
    expect(lock.isHeld).toBe(true);
  });

  it("that happened while the program stood still for longer than the grace is told within the second", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 300 });
    here.service.welcome = "unreachable";
    here.service.socket.isBlackHole = true;
    await here.clock.freeze(20_000);
    expect(lock.isHeld).toBe(false);
    await here.clock.pass(600);
    expect(lock.signal.reason).toMatchObject({ reason: "disconnected" });
  });

  it("that did not happen while the program stood still costs nothing", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 300 });
    await here.clock.freeze(20_000);
    await here.clock.pass(5_000);
    expect(lock.isHeld).toBe(true);
    expect(lock.signal.aborted).toBe(false);
  });

  it("is found out in time also by many locks that wonder one after the other", async () => {
    const here = await world();
    const locks = [];
    for (let each = 0; each < 12; each += 1) {
      locks.push(await held(here, { leaseS: 6 }));
      await here.clock.pass(150);
    }
    here.service.reply = ({ command }) => (command === "n" ? "ok 6" : undefined);
    here.service.socket.isBlackHole = true;
    await here.clock.pass(5_000);
    expect(locks.filter(({ isHeld }) => !isHeld)).toEqual([]);
  });

  it("is suspected when a renewal is not answered, sooner than by the heartbeat for a short lease", async () => {
    const here = await world();
    const lock = await held(here, { leaseS: 3 });
    here.service.reply = ({ command }) => (command === "n" ? "ok 3" : undefined);
    here.service.socket.isBlackHole = true;
    await here.clock.pass(2_900);
    expect(here.service.sockets).toHaveLength(2);
    expect(lock.isHeld).toBe(true);
  });
});

describe("a heartbeat", () => {
  it("that was answered while the program was stopped is no reason to leave", async () => {
    const { clock, service } = await world();
    await clock.freeze(100_000);
    await clock.freeze(100_000);
    await clock.pass(20_000);
    expect(service.sockets).toHaveLength(1);
  });
});

describe("being asked whether one is there", () => {
  it("is answered at once, but not on a socket that was given up", async () => {
    const { clock, service } = await world();
    const [first] = service.sockets;
    service.socket.say("! present");
    await settled();
    expect(first?.sent.at(-1)).toMatch(/^@\w+ ping\n_\n_\n$/);
    service.socket.isBlackHole = true;
    await clock.pass(6_000);
    expect(service.sockets).toHaveLength(2);
    const said = first?.sent.length;
    if (first) first.isBlackHole = false;
    first?.say("! present");
    await settled();
    expect(first?.sent.length).toBe(said);
  });
});
