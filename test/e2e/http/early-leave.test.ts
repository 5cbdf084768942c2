import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import { poll } from "../../support/poll.ts";
import type { TestServer } from "../../support/server.ts";

describe.each(HOSTS)("early leave, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start();
  });
  afterAll(() => server.stop());

  async function send(path: string, session: string, body: object): Promise<Record<string, unknown>> {
    const headers = session === "" ? {} : { "X-Dflockd-Session": session };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    const text = await (await fetch(`http://127.0.0.1:${server.httpPort}${path}`, init)).text();
    return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
  }

  const openSession = async () => (await send("/v1/sessions", "", {})).session_id as string;

  /** Waits for a lock, and is gone the moment it has read its token, without waiting for the end of the reply. */
  function takeAndLeave(session: string, key: string, leave: "close" | "reset"): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(server.httpPort, "127.0.0.1");
      let received = "";
      socket.on("error", reject);
      socket.on("data", (bytes) => {
        received += bytes;
        const [, token] = /"token":"([0-9a-f]{32})"/.exec(received) ?? [];
        if (token === undefined) return;
        if (leave === "close") socket.destroy();
        else socket.resetAndDestroy();
        resolve(token);
      });
      const body = '{"acquire_timeout_s":30}';
      socket.write(
        `POST /v1/locks/${key} HTTP/1.1\r\nHost: holdfast\r\nX-Dflockd-Session: ${session}\r\n` +
          `Content-Length: ${body.length}\r\n\r\n${body}`,
      );
    });
  }

  describe("a client that hangs up as soon as it has read its token", () => {
    it.each(["close", "reset"] as const)("by a %s keeps the lock it was given", async (leave) => {
      const [holder, waiter] = [await openSession(), await openSession()];
      for (let round = 0; round < 10; round++) {
        const key = `${leave}-${round}`;
        const { token } = await send(`/v1/locks/${key}`, holder, {});
        const taken = takeAndLeave(waiter, key, leave);
        await poll("the waiter", 5_000, async () => {
          const seen = await (await fetch(`http://127.0.0.1:${server.httpPort}/v1/keys/${key}`)).json();
          return (seen as { waiters: number }).waiters === 1 ? true : undefined;
        });
        await send(`/v1/locks/${key}/release`, holder, { token });
        const theirs = await taken;
        // Whoever would take the lock back has had the time to.
        await new Promise((resolve) => setTimeout(resolve, 60));
        expect(await send(`/v1/locks/${key}/renew`, waiter, { token: theirs })).toEqual({ remaining_s: 33 });
      }
    });
  });
});
