import type { PartialEnv } from "../env.ts";
import { KeyObject } from "../key/key-object.ts";

/** The bindings and variables of the Worker around it are its own: none of them is read. */
const NOTHING_BOUND: PartialEnv = {};

/** The object of a key, alone in a Worker: no directory lists it, nothing collects what it counts, and it has no sessions. */
export class LockKey extends KeyObject {
  constructor(ctx: DurableObjectState, _env: unknown) {
    super(ctx, NOTHING_BOUND);
  }
}
