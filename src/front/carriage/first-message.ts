/**
 * workerd keeps a connection on which no message ever arrived, and its descriptor, when its own side closes first
 * (workerd 2026-11). So the front door sends one before the client does. It is empty, and means nothing.
 */
export const FIRST_MESSAGE = "";

/** The same as a frame; client frames must be masked. */
export const FIRST_FRAME = Buffer.from([0x81, 0x80, 0, 0, 0, 0]);
