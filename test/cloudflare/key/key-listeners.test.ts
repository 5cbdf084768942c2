/** The sockets on which Workers wait for claims, at the key's object. */
import { describe, expect, it } from "vitest";
import { LISTENER_HEADER, POLL_CLOSE } from "../../../src/cloudflare/calls/replies.ts";
import type { ClaimCommand } from "../../../src/core/engine/index.ts";
import { newSessionlessOwner } from "../../../src/core/session-names.ts";
import { askKey, fresh, grantedToken, keyStub, until } from "../support.ts";

const LEASE_SECONDS = 600;

function claim(waitMs: number): ClaimCommand {
  const sessionless = { kind: "worker", tag: "worker", note: "" };
  const session = newSessionlessOwner("worker");
  return { session, request: fresh("request"), leaseSeconds: LEASE_SECONDS, waitMs, sessionless };
}

/** A Worker's socket, and the statuses that it has heard. */
async function listen(key: string, command: ClaimCommand) {
  const headers = { Upgrade: "websocket", [LISTENER_HEADER]: command.request };
  const { webSocket } = await keyStub(key).fetch("http://key/", { headers });
  if (!webSocket) throw new Error("no socket");
  const heard: string[] = [];
  webSocket.addEventListener("message", ({ data }) => heard.push(JSON.parse(String(data)).outcome.status));
  webSocket.accept();
  webSocket.send(JSON.stringify(command));
  return { webSocket, heard };
}

const viewOf = (key: string) => keyStub(key).describe();

describe("a claim made again on another socket, before the key learns that the first is lost", () => {
  it("is answered on the new one, and stays when the first is closed", async () => {
    const key = fresh("key");
    const first = claim(0);
    const token = grantedToken(await askKey(keyStub(key), { type: "claim", command: first }));
    const command = claim(50_000);
    const lost = await listen(key, command);
    await until(async () => (await viewOf(key))?.waiters === 1);
    const again = await listen(key, command);
    // The claim has arrived once a later one has.
    const other = await listen(key, claim(50_000));
    await until(async () => (await viewOf(key))?.waiters === 2);
    await askKey(keyStub(key), { type: "release", token, session: first.session });
    await until(() => again.heard.length > 0);
    expect([lost.heard, again.heard, other.heard]).toEqual([[], ["granted"], []]);
    again.webSocket.close(POLL_CLOSE.delivered);
    lost.webSocket.close(POLL_CLOSE.vanished);
    await scheduler.wait(100);
    expect((await viewOf(key))?.holderCount).toBe(1);
    expect(other.heard).toEqual([]);
  });
});
