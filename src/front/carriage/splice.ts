import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { AnswerWindow } from "./answer-window.ts";
import { FIRST_FRAME } from "./first-message.ts";
import { clientCloseFrame, FrameReader } from "./frames.ts";
import { MessageMeter } from "./message-meter.ts";
import { Outbox } from "./outbox.ts";

/** How much may be buffered on either side before the other is no longer read from. */
const BUFFER_BYTES = 262_144;
const LINGER_MS = 2_000;
const MESSAGE_TOO_BIG = 1009;
const CLOSE = 8;

/**
 * Joins a WebSocket client and workerd after the upgrade, byte for byte. A client that does not read is not read from,
 * and is cut off when it takes nothing for the write time-out. A client that sends faster than its session answers is
 * read from as answers arrive. A message that is too long ends the connection with close code 1009 before it is passed
 * on. The end of either side immediately ends the other; a client that does not answer a close frame is cut off.
 */
export function splice(client: Duplex, upstream: Socket, writeTimeoutMs: number): void {
  const window = new AnswerWindow();
  const requests = new MessageMeter({ hasRoom: () => window.isOpen, passed: (lines) => window.asked(lines) });
  const answers = new FrameReader({
    mayPass: ({ opcode }) => {
      if (opcode === CLOSE) setTimeout(() => upstream.destroy(), LINGER_MS).unref();
      window.answered();
      return true;
    },
  });
  let forgiveness: NodeJS.Timeout | undefined;

  const cut = () => {
    client.destroy();
    upstream.destroy();
  };
  const pass = (bytes?: Buffer) => {
    const wasTooLong = requests.isTooLong;
    const passed = requests.take(bytes);
    if (passed.length > 0) upstream.write(passed);
    if (requests.isTooLong && !wasTooLong) {
      // The session answers the close as if its client had sent it, in order with its other answers.
      upstream.write(clientCloseFrame(MESSAGE_TOO_BIG));
      setTimeout(cut, LINGER_MS).unref();
    }
  };
  const hasRoom = () => window.isOpen && outbox.size <= BUFFER_BYTES && upstream.writableLength <= BUFFER_BYTES;
  const readOn = () => {
    if (outbox.size <= BUFFER_BYTES) upstream.resume();
    if (!client.isPaused() || !hasRoom()) return;
    pass();
    if (hasRoom()) client.resume();
    else holdBack();
  };
  const holdBack = () => {
    client.pause();
    clearTimeout(forgiveness);
    if (window.isOpen) return;
    forgiveness = setTimeout(() => {
      window.forgive();
      if (window.isOpen) readOn();
      else holdBack();
    }, window.msUntilForgiven() + 1);
  };
  const outbox = new Outbox(client, writeTimeoutMs, { drained: readOn, stalled: cut });

  upstream.write(FIRST_FRAME);
  client.on("data", (bytes: Buffer) => {
    if (upstream.destroyed) return;
    pass(bytes);
    if (!hasRoom()) holdBack();
  });
  upstream.on("drain", readOn);
  upstream.on("data", (bytes: Buffer) => {
    outbox.add(bytes);
    answers.take(bytes);
    if (outbox.size > BUFFER_BYTES) {
      upstream.pause();
      client.pause();
    } else readOn();
  });
  // A WebSocket has no half-open state: an end without a close frame means that the client is gone.
  client.on("end", cut);
  client.on("error", cut);
  client.on("close", () => {
    clearTimeout(forgiveness);
    outbox.discard();
    upstream.destroy();
  });
  upstream.on("error", cut);
  upstream.on("end", () => upstream.destroy());
  upstream.on("close", () => {
    clearTimeout(forgiveness);
    // The session's last bytes still reach the client: unread input would reset the connection first.
    client.resume();
    client.once("finish", () => setTimeout(() => client.destroy(), LINGER_MS).unref());
    outbox.end();
  });
}
