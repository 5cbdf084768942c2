import { connect, type Lock } from "../../src/client/index.ts";

/**
 * Plays the story that fences are for: somebody holds a lock, `before` runs, the lock is lost, and somebody else holds
 * it when `after` runs. Neither can keep the first from going on.
 */
export async function staleHolder(
  url: string,
  key: string,
  before: (stale: Lock) => unknown,
  after: (stale: Lock, fresh: Lock) => unknown,
): Promise<void> {
  await using one = connect(url, { label: "one" });
  await using another = connect(url, { label: "another" });
  const stale = await one.acquire(key, { maxHold: 500 });
  await before(stale);
  const fresh = await another.acquire(key, { timeout: 10_000 });
  const { reason } = await stale.lost;
  if (reason !== "expired") throw new Error(`the lock should have expired, but it was ${reason}`);
  await after(stale, fresh);
  if (!(await fresh.release())) throw new Error("the second lock was lost as well");
}
