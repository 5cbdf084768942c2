/// <reference lib="esnext.disposable" preserve="true" />
/** Locks and semaphores of a holdfast service, for browsers, Node and Workers. */
export type { AcquireOptions, LockOptions, WaitOptions } from "./acquire.ts";
export type { Clock } from "./clock.ts";
export { type ConnectOptions, connect } from "./connect.ts";
export {
  AcquireTimeoutError,
  AuthError,
  CapacityError,
  ConnectionError,
  DrainingError,
  LimitMismatchError,
  LockError,
  type LockErrorCode,
  LockLostError,
  type LossReason,
  ProtocolError,
} from "./errors.ts";
export type { Lock } from "./lock.ts";
export type { Locks } from "./locks.ts";
export type { ReadyOptions } from "./ready.ts";
export type { Holder, KeyReport, Stats, Waiter } from "./report.ts";
export type { Semaphore } from "./semaphore.ts";
export type { Socket, SocketConstructor } from "./socket.ts";
export type { Status } from "./status.ts";
export type { Ticket } from "./ticket.ts";
export {
  type WebLock,
  type WebLockCallback,
  type WebLockInfo,
  type WebLockOptions,
  type WebLocks,
  webLocks,
} from "./web-locks.ts";
