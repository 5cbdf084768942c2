/// <reference lib="esnext.disposable" preserve="true" />
/** Locks and semaphores of a holdfast service, for browsers, Node and Workers. */

export type { Clock } from "./clock.ts";
export { type ConnectOptions, connect } from "./connect.ts";
export type { Binding } from "./connection/binding.ts";
export type { Socket, SocketConstructor } from "./connection/socket.ts";
export type { Status } from "./connection/status.ts";
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
export type { AcquireOptions, LockOptions, RequestOptions, WaitOptions } from "./locks/acquire.ts";
export type { Lock } from "./locks/lock.ts";
export type { Semaphore } from "./locks/semaphore.ts";
export type { KeyOptions, Keys, LocksOf, SeveralOptions } from "./locks/several.ts";
export type { Ticket } from "./locks/ticket.ts";
export {
  type WebLock,
  type WebLockCallback,
  type WebLockInfo,
  type WebLockOptions,
  type WebLocks,
  webLocks,
} from "./locks/web-locks.ts";
export type { Locks } from "./locks.ts";
export type { ReadyOptions } from "./ready.ts";
export type { Holder, KeyReport, Stats, Waiter } from "./report.ts";
