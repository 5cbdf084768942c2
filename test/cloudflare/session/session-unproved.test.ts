import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { cut, resumable, resume } from "../resuming.ts";
import { sessionStub } from "../support.ts";

/** Kept with a socket while its object sleeps. */
type Attachment = { readonly state: { readonly phase: string } };

it.each([
  ["handshake", "can still be taken up"],
  ["open", "is over"],
])("a session whose client leaves in the phase `%s`, while the object sleeps, %s", async (phase, end) => {
  const { client, credential } = await resumable();
  await cut(client);
  const back = await resume(credential);
  expect(await back.ask("@p ping\n_\n_\n")).toBe("@p ok");
  const session = sessionStub(credential.session);
  await runInDurableObject(session, (_, state) => {
    for (const socket of state.getWebSockets()) {
      const { state: kept, ...attachment } = socket.deserializeAttachment() as Attachment;
      socket.serializeAttachment({ ...attachment, state: { ...kept, phase } });
    }
  });
  await evictDurableObject(session, { webSockets: "hibernate" });
  back.close(1000);
  await back.closed();
  const again = resume(credential);
  if (end === "is over") await expect(again).rejects.toThrow("no upgrade: 503");
  else expect(await (await again).ask("@q ping\n_\n_\n")).toBe("@q ok");
});

it("a socket that was replaced says nothing about the session, however late and with whatever code it closes", async () => {
  const { client, credential } = await resumable();
  const session = sessionStub(credential.session);
  const old = await runInDurableObject(session, (_, state) => state.getWebSockets()[0] as WebSocket);
  await cut(await resume(credential));
  await client.closed();
  await runInDurableObject(session, (object) => object.webSocketClose(old, 4411));
  const again = await resume(credential);
  expect(await again.ask("@q ping\n_\n_\n")).toBe("@q ok");
});
