import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { expect, it } from "vitest";
import { httpSessionName } from "../../../src/objects/calls/session-names.ts";
import { fresh, keyStub, rowsWritten } from "../support.ts";

async function send(path: string, session: string, body: object): Promise<Record<string, unknown>> {
  const headers = { "X-Dflockd-Session": session };
  const reply = await exports.default.fetch(`http://holdfast${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  const text = await reply.text();
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}

it("an uncontended cycle over HTTP writes two rows at the key and, on a key in use, none at the session", async () => {
  const { session_id } = await send("/v1/sessions", "", {});
  const [id, key] = [session_id as string, fresh("key")];
  const cycle = async () => {
    const { token } = await send(`/v1/locks/${key}`, id, {});
    await send(`/v1/locks/${key}/release`, id, { token });
  };
  await cycle();
  const session = env.HTTP_SESSION.getByName(httpSessionName(id));
  await runInDurableObject(session, async (_, state) => {
    let atKey = 0;
    const atSession = await rowsWritten(state, () =>
      runInDurableObject(keyStub(key), async (_, keyState) => {
        atKey = await rowsWritten(keyState, cycle);
      }),
    );
    // When the client was last seen is written down every few seconds at most.
    expect(atKey).toBe(2);
    expect(atSession).toBeLessThanOrEqual(1);
  });
});
