/** The extensions that the client library needs, said line by line as docs/protocol.md has them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { HOSTS } from "../support/hosts.ts";
import type { TestServer } from "../support/server.ts";
import { askToResume, type Speaker, speakTo } from "../support/speaker.ts";
import { stopwatch } from "../support/stopwatch.ts";

const ADMIN = "the operator's token";
describe.each(HOSTS)("resuming, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start({ variables: { ADMIN_TOKEN: ADMIN } });
  });
  afterAll(() => server.stop());

  const speak = (credential?: string) => speakTo(server.httpPort, credential);

  /** A client whose session outlives its socket. */
  async function resumable(): Promise<{ speaker: Speaker; credential: string }> {
    const speaker = await speak();
    const { credential, graceSeconds } = await askToResume(speaker);
    expect(credential).toMatch(/^(?:[0-9a-f]{32}){1,2}\.[0-9a-f]{32}$/);
    expect(graceSeconds).toBe(10);
    return { speaker, credential };
  }

  describe("resuming a session", () => {
    it("what is sent again under its tag is carried out once", async () => {
      const holder = await speak();
      holder.say("@1 l", "jobs", "0");
      const [held = ""] = (await holder.hears("@1 ok")).split(" ");
      const { speaker, credential } = await resumable();
      speaker.say("@1 l", "jobs", "60");
      speaker.say("@2 l", "mine", "0 60");
      const mine = await speaker.hears("@2 ok");
      speaker.socket.terminate();
      await speaker.closed;
      // It comes up while nobody is there to hear it.
      holder.say("@2 r", "jobs", held);
      expect(await holder.hears("@2")).toBe("ok");
      const back = await speak(credential);
      expect(back.socket.protocol).toBe("dflockd.v2");
      for (const [tag, key, arg] of [
        ["@1", "jobs", "60"],
        ["@2", "mine", "0 60"],
      ] as const)
        back.say(`${tag} l`, key, arg);
      expect(await back.hears("@2 ok")).toBe(mine);
      expect(await back.hears("@1 ok")).toMatch(/^[0-9a-f]{32} 33$/);
      back.say("@3 query", "jobs");
      expect(JSON.parse(await back.hears("@3 ok"))).toMatchObject({ holders: 1, waiters: 0 });
      for (const client of [back, holder]) client.socket.close(1000);
    });

    it("a place is kept although its turn comes between the new socket and what is sent again on it", async () => {
      const [holder, other] = [await speak(), await speak()];
      holder.say("@1 l", "slow", "0");
      const [held = ""] = (await holder.hears("@1 ok")).split(" ");
      const { speaker, credential } = await resumable();
      speaker.say("@1 l", "slow", "60");
      speaker.say("@2 r", "slow", "nobody");
      await speaker.hears("@2 error");
      other.say("@1 l", "slow", "60");
      other.say("@2 r", "slow", "nobody");
      await other.hears("@2 error");
      speaker.socket.terminate();
      await speaker.closed;
      const back = await speak(credential);
      holder.say("@2 r", "slow", held);
      await holder.hears("@2 ok");
      // The key has told, and told again, and nobody knew of the request yet.
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      back.say("@1 l", "slow", "60");
      expect(await back.hears("@1 ok")).toMatch(/^[0-9a-f]{32} 33$/);
      expect(other.heard.filter((line) => line.startsWith("@1"))).toEqual([]);
      for (const client of [back, holder, other]) client.socket.close(1000);
    });

    it("asked for again, the credential is the same", async () => {
      const { speaker, credential } = await resumable();
      speaker.say("@t session", "_", "resume");
      expect(await speaker.hears("@t ok")).toBe(`${credential} 10`);
      speaker.socket.close(1000);
    });

    it("an open socket is asked first: who answers stays, who is silent is replaced", async () => {
      const { speaker, credential } = await resumable();
      const attempt = speak(credential);
      await speaker.hears("! present");
      speaker.say("@p ping");
      expect(await (await attempt).closed).toBe(4409);
      const second = await speak(credential);
      expect(await speaker.closed).toBe(4411);
      second.say("@q ping");
      expect(await second.hears("@q")).toBe("ok");
      second.socket.close(1000);
    });

    it("with a short grace, silence is waited for no longer than a quarter of it", async () => {
      await using hasty = await host.start({ variables: { RESUME_GRACE_S: "1" } });
      const speaker = await speakTo(hasty.httpPort);
      const { credential } = await askToResume(speaker);
      const [started, elapsed] = [performance.now(), stopwatch()];
      const second = await speakTo(hasty.httpPort, credential);
      expect(await speaker.closed).toBe(4411);
      expect(performance.now() - started).toBeGreaterThan(200);
      expect(elapsed()).toBeLessThan(1_500);
      second.say("@q ping");
      expect(await second.hears("@q")).toBe("ok");
      second.socket.close(1000);
    });

    it.each([
      [1000, 4410],
      [1001, 4410],
      [4412, "taken up"],
    ])("a socket that is closed with %i leaves a session that is %s", async (code, end) => {
      const { speaker, credential } = await resumable();
      speaker.socket.close(code);
      await speaker.closed;
      const back = await speak(credential);
      if (back.socket.readyState === WebSocket.OPEN) back.say("@1 ping");
      expect(await Promise.race([back.closed, back.hears("@1").then(() => "taken up")])).toBe(end);
      back.socket.close(1000);
    });
  });

  it("cancel ends a request, and says so before it says ok", async () => {
    const [holder, waiter] = [await speak(), await speak()];
    holder.say("@1 l", "cancel", "0");
    await holder.hears("@1 ok");
    waiter.say("@7 l", "cancel", "60");
    waiter.say("@8 cancel", "_", "7");
    expect(await waiter.hears("@8")).toBe("ok");
    waiter.say("@9 cancel", "_", "7");
    expect(await waiter.hears("@9")).toBe("ok");
    expect(waiter.heard).toEqual(["@7 cancelled", "@8 ok", "@9 ok"]);
    holder.say("@2 query", "cancel");
    expect(JSON.parse(await holder.hears("@2 ok"))).toMatchObject({ holders: 1, waiters: 0 });
    for (const client of [holder, waiter]) client.socket.close(1000);
  });

  it("query of a key that does not exist is null", async () => {
    const client = await speak();
    client.say("@1 query", "nobody-uses-this");
    expect(await client.hears("@1")).toBe("ok null");
    client.socket.close(1000);
  });

  it("steal is for administrators, and its victim is told", async () => {
    const [victim, admin] = [await speak(), await speak()];
    victim.say("watch", "_", "lost");
    victim.say("@1 l", "loot", "0");
    const [token] = (await victim.hears("@1 ok")).split(" ");
    victim.say("@2 steal", "loot", "1");
    expect(await victim.hears("@2")).toBe("error_auth");
    admin.say("auth", "_", ADMIN);
    admin.say("@1 steal", "loot", "1 20");
    expect(await admin.hears("@1 ok")).toMatch(/^[0-9a-f]{32} 20$/);
    expect(await victim.hears("! lost")).toBe(`loot ${token} stolen`);
    for (const client of [victim, admin]) client.socket.close(1000);
  });
});
