const NORMAL = 1000;
/** Never heard on a wire: the platform's words for a close without a code, and for none at all. */
const NO_CODE = 1005;
export const NO_CLOSE = 1006;

/** Hibernatable sockets do not answer a close by themselves (workerd 2026-11). After a loss there is nobody to answer. */
export function answerClose(socket: WebSocket, code: number): void {
  if (code !== NO_CLOSE) closeSocket(socket, code);
}

/** Closes a socket that may be closed already, or about to break: then there is nobody left to tell, and that is no failure. */
export function closeSocket(socket: Pick<WebSocket, "close">, code: number): void {
  const isReserved = code < 1000 || code === 1004 || code === NO_CODE || code === NO_CLOSE || code === 1015;
  // Caught also if it fails later: nobody would handle that rejection.
  const close = async () => socket.close(isReserved ? NORMAL : code);
  close().catch(() => {});
}
