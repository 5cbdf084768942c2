import { expect, it } from "vitest";
import { difference } from "../../../bench/cost/counts.ts";
import { Client, fresh, keyStub, newSession, sessionStub, tokenOf } from "../support.ts";
import { Counting } from "./counting.ts";

it("a cycle is counted whole: its rows, its calls, its messages, and the socket that closes", async () => {
  const counting = await Counting.begin();
  try {
    const client = await Client.open();
    const cycle = async () => {
      const token = tokenOf(await client.ask("l\nkey\n0\n"));
      await client.ask(`r\nkey\n${token}\n`);
      await counting.quiet();
    };
    await cycle();
    const [before, startedAt] = [counting.read(), Date.now()];
    await cycle();
    const after = difference(counting.read(), before);
    expect(after).toMatchObject({ rowsWritten: 2, messages: 2, workerRequests: 0, closes: 0 });
    expect(after.calls).toBeGreaterThanOrEqual(2);
    expect(before.rowsRead).toBeGreaterThan(0);
    await counting.close(client);
    await counting.pass(5_000);
    expect(Date.now() - startedAt).toBe(5_000);
    expect(difference(counting.read(), before).closes).toBe(1);
  } finally {
    counting.end();
  }
});

it("a call is counted whether its object is found by a name or by an id", async () => {
  const counting = await Counting.begin();
  try {
    const before = counting.read();
    expect(await keyStub(fresh("key")).describe()).toBeNull();
    expect(await sessionStub(newSession()).isLive()).toEqual({ isLive: false });
    expect(difference(counting.read(), before).calls).toBe(2);
  } finally {
    counting.end();
  }
});
