const NORMAL = 1000;
/** Never sent on the wire: the platform reports these for a close frame without a code and for a lost connection. */
const NO_CODE = 1005;
export const NO_CLOSE = 1006;

/** Hibernatable sockets do not answer a close by themselves (workerd 2026-11). A lost connection needs no answer. */
export function answerClose(socket: WebSocket, code: number): void {
  if (code !== NO_CLOSE) closeSocket(socket, code);
}

/** Closes a socket that may already be closed or broken. A failure to close is ignored. */
export function closeSocket(socket: Pick<WebSocket, "close">, code: number): void {
  const isReserved = code < 1000 || code === 1004 || code === NO_CODE || code === NO_CLOSE || code === 1015;
  // `close` may also fail asynchronously; without this catch the rejection would be unhandled.
  const close = async () => socket.close(isReserved ? NORMAL : code);
  close().catch(() => {});
}
