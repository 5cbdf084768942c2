/// <reference lib="esnext.disposable" preserve="true" />
/** Lock files: a lock that is held while a file exists, for programs that share a file system. */
export { formatLockText, type LockFields, type LockText, parseLockText } from "../core/protocols/lockfile/index.ts";
export {
  FileLockError,
  type FileLockErrorKind,
  HeldError,
  IoError,
  NotOwnerError,
  PathError,
  TimeoutError,
} from "./errors.ts";
export {
  type Acquired,
  FileLock,
  type FileLockStatus,
  type RefreshOptions,
  type Released,
  type ReleaseOptions,
  type WaitOptions,
} from "./file-lock.ts";
export type { Holder } from "./holder.ts";
export type { FileLockOptions } from "./options.ts";
