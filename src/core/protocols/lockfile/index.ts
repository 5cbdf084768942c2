/** The text of lock files, as bytes and as fields. Shared by files on disk, the HTTP service and the command line. */
export { type Fields, isNonce, MAX_LOCK_BYTES, MAX_PID, readFields, readNumber } from "./fields.ts";
export { cleanText, formatLockText } from "./format.ts";
export { type LockFields, type LockText, parseLockText } from "./parse.ts";
