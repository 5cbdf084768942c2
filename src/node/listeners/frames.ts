import { PIECE_BYTES } from "./outbox.ts";

const OPCODE = { continuation: 0, text: 1, binary: 2, pong: 10 } as const;
const FIN = 0x80;
const TWO_BYTE_LENGTH = 126;
/** No payload is longer than a piece, so its length always fits into two bytes. */
const MAX_HEADER_BYTES = 4;
const MAX_PAYLOAD_BYTES = PIECE_BYTES - MAX_HEADER_BYTES;

/**
 * Text messages as the frames of a server, in buffers of at most a piece each. Frames are never cut between two buffers,
 * so that control frames may come between any two: a message that is longer than a piece is sent in fragments.
 */
export function textFrames(messages: readonly string[]): Buffer[] {
  const buffers: Buffer[] = [];
  let group: string[] = [];
  let size = 0;
  const flush = () => {
    if (group.length > 0) buffers.push(packed(group, size));
    group = [];
    size = 0;
  };
  for (const message of messages) {
    const length = Buffer.byteLength(message);
    if (size + length > MAX_PAYLOAD_BYTES) flush();
    if (length > MAX_PAYLOAD_BYTES) buffers.push(...fragments(Buffer.from(message)));
    else {
      group.push(message);
      size += headerLength(length) + length;
    }
  }
  flush();
  return buffers;
}

/** An unfragmented binary frame of at most a piece. */
export const binaryFrame = (payload: Uint8Array) => frame(FIN | OPCODE.binary, payload);

export const pongFrame = (payload: Uint8Array) => frame(FIN | OPCODE.pong, payload);

/** Frames of short messages, one after the other. */
function packed(messages: readonly string[], size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const message of messages) {
    const length = Buffer.byteLength(message);
    at = writeHeader(bytes, at, FIN | OPCODE.text, length);
    at += bytes.write(message, at, length);
  }
  return bytes;
}

function fragments(message: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < message.length; at += MAX_PAYLOAD_BYTES) {
    const isLast = at + MAX_PAYLOAD_BYTES >= message.length;
    const opcode = at === 0 ? OPCODE.text : OPCODE.continuation;
    frames.push(frame((isLast ? FIN : 0) | opcode, message.subarray(at, at + MAX_PAYLOAD_BYTES)));
  }
  return frames;
}

function frame(first: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(headerLength(payload.length) + payload.length);
  bytes.set(payload, writeHeader(bytes, 0, first, payload.length));
  return bytes;
}

const headerLength = (payload: number) => (payload < TWO_BYTE_LENGTH ? 2 : MAX_HEADER_BYTES);

/** Returns the position after the header. */
function writeHeader(bytes: Buffer, at: number, first: number, payload: number): number {
  bytes[at] = first;
  if (payload < TWO_BYTE_LENGTH) {
    bytes[at + 1] = payload;
    return at + 2;
  }
  bytes[at + 1] = TWO_BYTE_LENGTH;
  bytes[at + 2] = payload >> 8;
  bytes[at + 3] = payload & 0xff;
  return at + 4;
}
