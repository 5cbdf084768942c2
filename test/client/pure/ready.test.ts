/** Waiting for the connection, and asking how it is. */
import { describe, expect, it } from "vitest";
import { AuthError, ConnectionError, connect } from "../../../src/client/index.ts";
import { FakeClock, settled } from "./fake-clock.ts";
import { FakeService, type Welcome, world } from "./fake-service.ts";

/** A client whose service meets it like this, before anything has happened. */
function newcomer(welcome: Welcome) {
  const [clock, service] = [new FakeClock(), new FakeService()];
  service.welcome = welcome;
  const locks = connect("ws://service", { clock, WebSocket: service.WebSocket });
  return { clock, service, locks };
}

describe("ready", () => {
  it("resolves when the connection is there, and at once afterwards", async () => {
    const { service, locks } = newcomer("session");
    await locks.ready();
    expect(locks.status).toBe("connected");
    const heard = service.socket.sent.length;
    await locks.ready({ timeout: 0 });
    expect(service.socket.sent.length).toBe(heard);
    await locks.close();
  });

  it("waits for a service that comes later", async () => {
    const { clock, service, locks } = newcomer("unreachable");
    const ready = locks.ready({ timeout: 60_000 });
    await clock.pass(20_000);
    expect(locks.status).toBe("reconnecting");
    service.welcome = "session";
    await clock.pass(6_000);
    expect(await ready).toBeUndefined();
    await locks.close();
    expect(clock.timers).toBe(0);
  });

  it("rejects when the time is over, with why there is no connection", async () => {
    const { clock, locks } = newcomer("unreachable");
    const ready = locks.ready({ timeout: 2_000 }).catch((error: unknown) => error);
    await clock.pass(2_000);
    const error = await ready;
    expect(error).toBeInstanceOf(ConnectionError);
    expect(error).toMatchObject({
      message: "not connected within 2000 ms: closed with code 1006",
      cause: "closed with code 1006",
    });
    await locks.close();
  });

  it("rejects when the token is refused, also when asked again", async () => {
    const { clock, locks } = newcomer("refused");
    for (let attempt = 0; attempt < 2; attempt++) {
      const ready = locks.ready().catch((error: unknown) => error);
      await clock.pass(1_000);
      expect(await ready).toBeInstanceOf(AuthError);
    }
    await locks.close();
  });

  it("rejects with the reason of its signal, before and while it waits", async () => {
    const { locks } = newcomer("silence");
    await expect(locks.ready({ signal: AbortSignal.abort("too late") })).rejects.toBe("too late");
    const stop = new AbortController();
    const ready = locks.ready({ signal: stop.signal });
    stop.abort("enough");
    await expect(ready).rejects.toBe("enough");
    await locks.close();
  });

  it("rejects when the client is closed, before and meanwhile", async () => {
    const { clock, locks } = newcomer("silence");
    const ready = locks.ready().catch((error: unknown) => error);
    const closed = locks.close();
    expect(await ready).toMatchObject({ code: "connection", message: "the client is closed" });
    await clock.pass(5_000);
    await closed;
    await expect(locks.ready()).rejects.toBeInstanceOf(ConnectionError);
  });

  it("outlasts a session that ends while it waits", async () => {
    const { clock, service, locks } = await world();
    service.welcome = "unreachable";
    service.socket.lose();
    await settled();
    const ready = locks.ready({ timeout: 60_000 });
    // After the grace the session is gone, and with it all that was asked of it.
    await clock.pass(15_000);
    service.welcome = "gone";
    await clock.pass(6_000);
    service.welcome = "session";
    await clock.pass(6_000);
    expect(await ready).toBeUndefined();
    expect(locks.status).toBe("connected");
    await locks.close();
  });

  it("does not trust a connection that may be long gone: it asks", async () => {
    const { clock, service, locks } = await world();
    clock.sleep(60_000);
    const heard = service.socket.sent.length;
    await locks.ready();
    expect(service.socket.sent.length).toBe(heard + 1);
    await locks.close();
  });
});

describe("status", () => {
  it("is how the connection is now, from the first attempt to the end", async () => {
    const { clock, service, locks } = newcomer("session");
    expect(locks.status).toBe("connecting");
    await settled();
    expect(locks.status).toBe("connected");
    service.socket.lose();
    expect(locks.status).toBe("reconnecting");
    await clock.pass(1_000);
    expect(locks.status).toBe("resumed");
    await locks.close();
    expect(locks.status).toBe("closed");
  });
});
