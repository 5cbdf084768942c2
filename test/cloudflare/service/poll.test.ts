import { expect, it } from "vitest";
import { POLL_CLOSE } from "../../../src/cloudflare/calls/replies.ts";
import { endOfPoll } from "../../../src/cloudflare/service/poll.ts";

const GRANT = { type: "answered", outcome: { status: "ok", token: "t", leaseSeconds: 33 } } as const;

/** A poll whose session grants it the lock. `onGrant` runs when the grant arrives, before the poll sees it. */
async function grantedPoll(onGrant: (client: AbortController) => void) {
  const { 0: polling, 1: session } = new WebSocketPair();
  const client = new AbortController();
  const closed = Promise.withResolvers<number>();
  session.addEventListener("close", ({ code }) => closed.resolve(code));
  session.accept();
  polling.addEventListener("message", () => onGrant(client));
  const end = endOfPoll(polling, client.signal);
  session.send(JSON.stringify(GRANT));
  return { end: await end, code: await closed.promise };
}

it("a grant is the client's once the poll has handed it over", async () => {
  expect(await grantedPoll(() => {})).toEqual({ end: GRANT, code: POLL_CLOSE.delivered });
});

it("a grant that overtook a hang-up in the runtime is given back", async () => {
  const unread = (client: AbortController) => void scheduler.wait(0).then(() => client.abort());
  expect(await grantedPoll(unread)).toEqual({ end: { type: "vanished" }, code: POLL_CLOSE.vanished });
});
