/** WebSocket clients that are cut off by the server, and do not answer its close frame. */
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { OPCODE, openRaw, shortFrame } from "../abuse/raw-socket.ts";
import { Clients } from "../support/clients.ts";
import { startServer } from "../support/server.ts";
import { ask, lock } from "../support/wire-client.ts";

/** The end of a close frame with code 4408. */
const CUT_OFF = "\x88\x02\x11\x38";

it("are not heard again, and lose their connection soon, though others stay", async () => {
  await using server = await startServer({ variables: { READ_TIMEOUT_S: "1" } });
  using clients = new Clients(server);
  const beside = await clients.ws();
  const socket = await openRaw(server.httpPort);
  const closed = new Promise((resolve) => socket.on("close", resolve));
  let heard = "";
  const isCutOff = new Promise<void>((resolve) => {
    socket.on("data", (bytes) => {
      heard += bytes.toString("latin1");
      if (heard.endsWith(CUT_OFF)) resolve();
    });
  });
  socket.resume();
  // Half a request.
  socket.write(shortFrame(OPCODE.text, "l\n"));
  await isCutOff;
  // Its session has ended, and is no longer in memory.
  await pause(1_000);
  socket.write(shortFrame(OPCODE.text, "a\n0\nl\nghost\n0 600\n"));
  await pause(300);
  await lock(await clients.tcp(), "ghost");
  await closed;
  expect(await ask(beside, "ping", "_", "_")).toBe("ok");
});
