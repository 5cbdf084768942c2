import { afterAll, beforeAll, expect, it } from "vitest";
import { Clients } from "../support/clients.ts";
import { startServer, type TestServer } from "../support/server.ts";
import { waitersOf } from "../support/stats.ts";
import { ask, fenceOf, lock, tokenOf, type WireClient } from "../support/wire-client.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.stop());

it("a release with a thousand waiters wakes exactly one, and each gets its turn", async () => {
  using clients = new Clients(server);
  const holder = await clients.tcp();
  const key = "herd";
  const token = await lock(holder, key, "0 60");
  const sessions = await clients.mixed(10);
  const turns: { session: WireClient; tag: string }[] = [];
  for (const session of sessions) {
    const tags = Array.from({ length: 100 }, (_, index) => `t${index}`);
    session.send(tags.map((tag) => `@${tag} l\n${key}\n60 60\n`).join(""));
    expect(await ask(session, "@joined r", key, "nobody")).toBe("@joined error");
    turns.push(...tags.map((tag) => ({ session, tag })));
  }
  expect(await waitersOf(holder, key)).toBe(1_000);

  expect(await ask(holder, "r", key, token)).toBe("ok");
  const [first, ...others] = turns;
  if (!first) throw new Error("no turns");
  let reply = await first.session.next();
  expect(reply.startsWith(`@${first.tag} ok `)).toBe(true);
  await Promise.all(sessions.map((session) => session.silence(500)));

  for (const { session, tag } of others) {
    expect(await ask(holder, "r", key, tokenOf(reply))).toBe("ok");
    reply = await session.next();
    expect(reply.startsWith(`@${tag} ok `), `the turn of ${tag}, got ${reply}`).toBe(true);
  }
});

/** Takes and releases `key` until told to stop, and checks that nobody else holds it meanwhile. */
async function contend(client: WireClient, key: string, shared: Critical, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    client.send(`l\n${key}\n60\n`);
    const token = tokenOf(await client.next(60_000));
    expect(shared.holder, "two holders at once").toBeUndefined();
    shared.holder = token;
    shared.tokens.push(token);
    await new Promise(setImmediate);
    expect(shared.holder).toBe(token);
    shared.holder = undefined;
    expect(await ask(client, "r", key, token)).toBe("ok");
  }
}

class Critical {
  holder: string | undefined;
  /** In the order in which their holders learned of them. */
  readonly tokens: string[] = [];

  expectFencesToRise(): void {
    const fences = this.tokens.map(fenceOf);
    const falls = fences.findIndex((fence, index) => index > 0 && fence <= (fences[index - 1] ?? ""));
    expect(falls, "index of the first fence that does not rise").toBe(-1);
  }
}

it("two hundred clients contend for one key without an error and never with two holders", async () => {
  using clients = new Clients(server);
  const shared = new Critical();
  const contenders = await clients.mixed(200);
  const end = performance.now() + 3_000;
  await Promise.all(contenders.map((client) => contend(client, "contended", shared, () => performance.now() > end)));
  shared.expectFencesToRise();
  expect(shared.tokens.length).toBeGreaterThanOrEqual(contenders.length);
});

it("32 clients with 100 grants each see fences rise and no token twice", async () => {
  using clients = new Clients(server);
  const shared = new Critical();
  await Promise.all(
    (await clients.mixed(32)).map((client) => {
      let grants = 0;
      return contend(client, "fences", shared, () => {
        grants += 1;
        return grants > 100;
      });
    }),
  );
  expect(shared.tokens).toHaveLength(3_200);
  shared.expectFencesToRise();
  for (const token of shared.tokens) expect(token).toMatch(/^[0-9a-f]{32}$/);
  expect(new Set(shared.tokens.map((token) => token.slice(16))).size).toBe(3_200);
});
