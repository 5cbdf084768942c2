import { roomToWake, type Urgency } from "../awake/awake-keys.ts";
import { callAwake } from "../awake/resting.ts";
import type { Env } from "../env.ts";
import type { KeyObject } from "../key/key-object.ts";
import { keyObject } from "../placement.ts";

export type KeyStub = DurableObjectStub<KeyObject>;

/** Calls a key once there is room to wake it. The default suits reports, which are not urgent. */
export function askKey<Answer>(
  env: Env,
  key: string,
  ask: (object: KeyStub) => Promise<Answer>,
  urgency: Urgency = "background",
): Promise<Answer> {
  return callAwake(async () => {
    await roomToWake(env, key, urgency);
    return ask(keyObject(env, key));
  });
}
