/** A WebSocket client on a bare socket, for what no library would do: to announce and not send, to send and not read. */
import { connect, type Socket } from "node:net";

/** Opens a WebSocket and returns its socket, paused: nothing more is read until the caller does. */
export function openRaw(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay(true);
  socket.write(
    "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: aG9sZGZhc3QtaXMtaGVyZQ==\r\n\r\n",
  );
  return new Promise((resolve, reject) => {
    let head = "";
    const read = (bytes: Buffer) => {
      head += bytes.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", read);
      socket.pause();
      if (head.startsWith("HTTP/1.1 101")) resolve(socket);
      else reject(new Error(head.split("\r\n", 1)[0]));
    };
    socket.on("data", read);
    // Resets are part of the game once it is open.
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("closed without a word")));
  });
}

/** A TCP connection from which nothing is read. */
export async function openTcp(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.pause();
  socket.on("error", () => {});
  return socket;
}

export const OPCODE = { text: 1, ping: 9 } as const;

/** A short frame of a client, masked with zeros. */
export function shortFrame(opcode: number, payload: string): Buffer {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | bytes.length, 0, 0, 0, 0]), bytes]);
}

/** A long message of a client, in one frame. */
export function textMessage(payload: string): Buffer {
  const head = announcement(payload.length);
  head[0] = 0x80 | OPCODE.text;
  return Buffer.concat([head, Buffer.from(payload)]);
}

/** The head of a binary frame that promises so many bytes. */
export function announcement(bytes: number): Buffer {
  const head = Buffer.alloc(14);
  head[0] = 0x82;
  head[1] = 0xff;
  head.writeBigUInt64BE(BigInt(bytes), 2);
  return head;
}
