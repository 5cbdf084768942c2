import type { Rows, Store } from "./store.ts";

const NOTHING: Rows = {
  putKey() {},
  deleteKeys() {},
  deleteParts() {},
  putSlot() {},
  putWaiter() {},
  deleteWaiter() {},
  putLapse() {},
  deleteLapse() {},
  putSession() {},
  deleteSession() {},
  putValue() {},
};

/** Keeps nothing: the service forgets everything when it stops. No commit fails. */
export const VOLATILE_STORE: Store = {
  isVolatile: true,
  load: () => ({ keys: [], sessions: [], values: new Map() }),
  loadKey: () => undefined,
  loadSession: () => undefined,
  commit: (write) => write(NOTHING),
  hasRoom: () => true,
  logBytes: () => undefined,
  close() {},
};
