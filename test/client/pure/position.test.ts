/** Where a place in a queue is, by what the service says of the key. */
import { describe, expect, it } from "vitest";
import { ConnectionError, type KeyReport } from "../../../src/client/index.ts";
import { settled } from "./fake-clock.ts";
import { CREDENTIAL, freshToken, world } from "./fake-service.ts";

const OWN = Number(BigInt(`0x${CREDENTIAL.split(".")[0]}`) % (2n ** 52n - 1n)) + 1;
const since = "2026-11-17T00:00:00.000Z";

function reportOf(queue: { owner?: number; waited?: number }[], { owner = 7, waiters = queue.length } = {}): KeyReport {
  return {
    key: "key",
    kind: "lock",
    limit: 1,
    holders: 1,
    waiters,
    held_by: [{ owner_conn_id: owner, fence: "0".repeat(16), since, held_s: 1, lease_s: 33, lease_expires_in_s: 20 }],
    queue: queue.map(({ owner = OWN, waited = 0 }, index) => ({
      position: index + 1,
      owner_conn_id: owner,
      since,
      waited_s: waited,
    })),
  };
}

/** A ticket of a service that shows this report. */
async function queued(report: KeyReport | null) {
  const here = await world();
  here.service.reply = ({ command }) =>
    command === "e" ? "queued" : command === "query" ? `ok ${JSON.stringify(report)}` : undefined;
  return { ...here, ticket: await here.locks.enqueue("key") };
}

describe("the position of a ticket", () => {
  it.each([
    ["is its place in the queue", reportOf([{ owner: 8 }, { owner: 9 }, {}]), 3],
    ["is 0 when it has come up", reportOf([{ owner: 8 }], { owner: OWN }), 0],
    ["is not known behind those who are shown", reportOf([{ owner: 8 }], { waiters: 101 }), null],
  ])("%s", async (_, report, position) => {
    const { ticket, locks } = await queued(report);
    expect(await ticket.position()).toBe(position);
    await locks.close();
  });

  it("is that of the place, not of other requests of the same client", async () => {
    const { ticket, clock, locks } = await queued(reportOf([{ waited: 60 }, { waited: 4 }, { waited: 0 }]));
    await clock.pass(3_500);
    expect(await ticket.position()).toBe(2);
    await locks.close();
  });

  it.each([
    ["the key is forgotten", null],
    ["nobody of this client is there", reportOf([{ owner: 8 }])],
  ])("is refused when %s: the place is gone", async (_, report) => {
    const { ticket, locks } = await queued(report);
    await expect(ticket.position()).rejects.toMatchObject({ name: "ProtocolError", code: "not_enqueued" });
    await locks.close();
  });

  it("is told while it is waited for, and refused once that is over", async () => {
    const { ticket, service, locks } = await queued(reportOf([{}]));
    const waiting = ticket.wait();
    await settled();
    expect(await ticket.position()).toBe(1);
    await service.answer(service.last("w"), `ok ${freshToken()} 33`);
    await waiting;
    await expect(ticket.position()).rejects.toMatchObject({ code: "not_enqueued" });
    await locks.close();
  });

  it("is refused once it was left", async () => {
    const { ticket, service, locks } = await queued(reportOf([{}]));
    const left = ticket.leave();
    await settled();
    await service.answer(service.last("w"), "timeout");
    await left;
    await expect(ticket.position()).rejects.toMatchObject({ code: "not_enqueued" });
    await locks.close();
  });

  it("is not known where sessions have no name", async () => {
    const here = await world();
    await here.locks.close();
    const { connect } = await import("../../../src/client/index.ts");
    here.service.welcome = "no resuming";
    const locks = connect("ws://service", { clock: here.clock, WebSocket: here.service.WebSocket });
    here.service.reply = ({ command }) => (command === "e" ? "queued" : `ok ${JSON.stringify(reportOf([{}]))}`);
    const ticket = await locks.enqueue("key");
    expect(await ticket.position()).toBe(null);
    await locks.close();
  });

  it("is refused with the end of its session", async () => {
    const { ticket, clock, service, locks } = await queued(reportOf([{}]));
    service.welcome = "gone";
    service.socket.lose();
    await clock.pass(1_000);
    await expect(ticket.position()).rejects.toBeInstanceOf(ConnectionError);
    await locks.close();
  });

  it("passes on that the client may not look", async () => {
    const { ticket, service, locks } = await queued(reportOf([{}]));
    service.reply = () => "error_auth";
    await expect(ticket.position()).rejects.toMatchObject({ code: "auth" });
    await locks.close();
  });
});
