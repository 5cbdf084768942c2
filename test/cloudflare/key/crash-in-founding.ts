import { runInDurableObject } from "cloudflare:test";
import { expect, vi } from "vitest";
import { DirectoryObject } from "../../../src/cloudflare/directory/directory-object.ts";
import type { AcquireCommand } from "../../../src/core/engine/index.ts";
import { replaceNext } from "../spies.ts";
import { command, IN_TIME, keyStub, never, until } from "../support.ts";

/** The directory lists the key, and its answer to the key is lost. */
export async function loseListing(name: string): Promise<void> {
  const { joinKey } = DirectoryObject.prototype;
  replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, key, founding) {
    await joinKey.call(this, key, founding, IN_TIME);
    throw new Error("the answer is lost");
  });
  await expect((async () => keyStub(name).acquire(command()))()).rejects.toThrow("the answer is lost");
}

/**
 * The key's object is lost after it has stored its first grant: before or after the directory has listed the key, and
 * before it has answered. `use` is the command that founds the key.
 */
export async function crashInFounding(
  name: string,
  where: "before the listing" | "after the listing",
  use: "acquire" | "enqueue" = "acquire",
  overrides: Partial<AcquireCommand> = {},
): Promise<void> {
  const { joinKey } = DirectoryObject.prototype;
  let isAsked = false;
  replaceNext(DirectoryObject.prototype, "joinKey", name, async function (this: DirectoryObject, key, founding) {
    if (where === "after the listing") await joinKey.call(this, key, founding, IN_TIME);
    isAsked = true;
    // As long as the key waits for this answer, it has nothing but what it has stored.
    return never();
  });
  const first = command({ session: "first", request: "r1", ...overrides });
  const lost = expect((async () => keyStub(name)[use](first))()).rejects.toThrow();
  await until(() => isAsked);
  await expect(runInDurableObject(keyStub(name), (_, state) => state.abort("lost"))).rejects.toThrow();
  await lost;
  vi.mocked(DirectoryObject.prototype.joinKey).mockRestore();
}
