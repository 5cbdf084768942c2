import { directoryOfKey } from "../calls/directories.ts";
import type { Founding, KeyAdmission } from "../directory/directory-object.ts";
import type { Env } from "../env.ts";

/** The directory forgets other keys meanwhile, so it may find a question late; hardly ever twice in a row. */
const MAX_QUESTIONS = 10;

/** What the directory says of a key that it knows to be alive. */
export type Admission = Exclude<KeyAdmission, { readonly status: "late" }>;

/**
 * Asks the directory to list a key. A message that is long under way, or comes again, lists nothing: the directory finds
 * it late. That the key asks again shows that it is alive.
 */
export async function askToList(env: Env, key: string, founding: () => Founding): Promise<Admission> {
  let askedAt = Date.now();
  for (let questions = 0; questions < MAX_QUESTIONS; questions++) {
    const admission = await directoryOfKey(env, key).joinKey(key, founding(), askedAt);
    if (admission.status !== "late") return admission;
    askedAt = admission.askedAt;
  }
  throw new Error("the directory found every question to list the key late: try again");
}
