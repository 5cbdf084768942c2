/** A Worker that uses the service by a binding, as the tests tell it to. They run it beside the service in one workerd. */
import { WorkerEntrypoint } from "cloudflare:workers";
import type { LockOptions, LocksBinding } from "../../../src/cloudflare/locks/binding.ts";

interface Env {
  readonly LOCKS: LocksBinding;
  readonly COUNTER: { read(): Promise<number>; write(value: number): Promise<void> };
}

/** One call of the binding. */
interface Call {
  readonly call: "acquire" | "renew" | "release" | "describe" | "request";
  readonly args: readonly unknown[];
}

/** `request` with a callback, and what the callback does. */
interface Request {
  readonly key: string;
  readonly options?: LockOptions;
  readonly does: "show" | "throw" | "lose" | "hold" | "outlive" | "increment" | "stream";
}

let count = 0;

/** A number that nothing guards: reading and writing are two calls. */
export class Counter extends WorkerEntrypoint {
  read(): number {
    return count;
  }

  write(value: number): void {
    count = value;
  }
}

function run({ LOCKS, COUNTER }: Env, { key, options, does }: Request): Promise<unknown> {
  return LOCKS.request<unknown>(key, options, async (lock) => {
    switch (does) {
      case "show": {
        const { key, token, fence, expiresAt } = lock;
        return {
          key: await key,
          token: await token,
          fence: await fence,
          expiresAt: await expiresAt,
          isHeld: await lock.isHeld(),
        };
      }
      case "throw":
        throw new RangeError("the callback's own error");
      case "lose":
        await LOCKS.release(key, await lock.token);
        while (await lock.isHeld()) await scheduler.wait(20);
        return "done";
      case "hold":
        await scheduler.wait(600_000);
        return undefined;
      case "outlive": {
        const end = await lock.expiresAt;
        while (Date.now() <= end) await scheduler.wait(50);
        return { isHeld: await lock.isHeld(), isLonger: (await lock.expiresAt) > end, fence: await lock.fence };
      }
      case "increment": {
        const value = await COUNTER.read();
        await scheduler.wait(0);
        await COUNTER.write(value + 1);
        return await lock.fence;
      }
      case "stream":
        return new Response(new Blob(["a long ", "answer"]).stream(), { headers: { "X-Fence": await lock.fence } });
    }
  });
}

export default {
  async fetch(request, env) {
    const asked = await request.json<unknown>();
    try {
      switch (new URL(request.url).pathname) {
        case "/call": {
          const { call, args } = asked as Call;
          const method = env.LOCKS[call] as (...args: readonly unknown[]) => Promise<unknown>;
          return Response.json({ result: await method(...args) });
        }
        case "/request": {
          const result = await run(env, asked as Request);
          return result instanceof Response ? result : Response.json({ result });
        }
        // Ends while its callback runs.
        case "/leave": {
          const running = run(env, asked as Request);
          running.catch(() => {});
          const { key } = asked as Request;
          while ((await env.LOCKS.describe(key))?.holders !== 1) await scheduler.wait(10);
          return Response.json({ result: "left" });
        }
        case "/increments": {
          const all = Array.from({ length: 100 }, () => run(env, asked as Request));
          return Response.json({ result: await Promise.all(all) });
        }
        case "/count":
          return Response.json({ result: await env.COUNTER.read() });
        default:
          return new Response(null, { status: 404 });
      }
    } catch (error) {
      const { name, message } = error as Error;
      return Response.json({ name, message, isType: error instanceof TypeError, isRange: error instanceof RangeError });
    }
  },
} satisfies ExportedHandler<Env>;
