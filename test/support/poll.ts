import { stopwatch } from "./stopwatch.ts";

export const sleep = (seconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** Asks again until the answer is not undefined; fails after `deadlineMs` in which the machine did not stall, saying what it waited for. */
export async function poll<T>(what: string, deadlineMs: number, attempt: () => Promise<T | undefined>): Promise<T> {
  const elapsed = stopwatch();
  for (;;) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (elapsed() > deadlineMs) throw new Error(`gave up after ${deadlineMs} ms waiting for ${what}`);
    await sleep(0.05);
  }
}

/** Runs all jobs, at most `width` at a time, and keeps their order in the results. */
export async function pooled<In, Out>(
  width: number,
  jobs: readonly In[],
  run: (job: In) => Promise<Out>,
): Promise<Out[]> {
  const results = new Array<Out>(jobs.length);
  const queue = [...jobs.entries()];
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let next = queue.shift(); next; next = queue.shift()) results[next[0]] = await run(next[1]);
    }),
  );
  return results;
}
