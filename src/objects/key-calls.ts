import { isResting, roomToWake, type Urgency } from "./awake-keys.ts";
import type { Env } from "./env.ts";
import type { KeyObject } from "./key.ts";

export type KeyStub = DurableObjectStub<KeyObject>;

/** A key that is used now and then is put to rest again and again only if very many are. */
const ATTEMPTS = 5;

/** Asks a key something, once there is room to wake it. Whoever only reports is in no hurry. */
export async function askKey<Answer>(
  env: Env,
  key: string,
  ask: (object: KeyStub) => Promise<Answer>,
  urgency: Urgency = "background",
): Promise<Answer> {
  for (let attempt = 1; ; attempt++) {
    await roomToWake(env, key, urgency);
    try {
      return await ask(env.KEY.getByName(key));
    } catch (error) {
      if (attempt === ATTEMPTS || !isResting(error)) throw error;
    }
  }
}
