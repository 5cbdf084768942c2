/**
 * A Worker that uses locks as the tests tell it to: by a service binding, as it is or with `locks()`, or with a `LockKey` of
 * its own. They run it beside the service in one workerd.
 */
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { connect } from "../../../src/client/index.ts";
import type { KeyObject } from "../../../src/cloudflare/key/key-object.ts";
import { LockKey, locks } from "../../../src/cloudflare/lock-key/index.ts";
import type { Keys, LockOptions, LocksBinding, Lost } from "../../../src/cloudflare/locks/binding.ts";

export { LockKey };

interface Env {
  readonly LOCKS?: LocksBinding;
  /** `locks()` is not used. */
  readonly IS_PLAIN?: string;
  readonly LOCK_KEY?: DurableObjectNamespace<KeyObject>;
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

/** `request` with several keys. */
interface RequestOfSeveral {
  readonly keys: Keys;
  readonly options?: LockOptions;
  readonly does: "show" | "throw" | "lose" | "hold" | "increment";
}

/** What both kinds of binding have in common: a property of a lock is read with `await`. */
type Locks = Omit<LocksBinding, "request"> & {
  request<Result>(
    key: string,
    options: LockOptions | undefined,
    callback: (lock: Lock) => Promise<Result>,
  ): Promise<Result>;
  request<Result>(
    keys: Keys,
    options: LockOptions | undefined,
    callback: (locks: readonly Lock[], loss: Lost | AbortSignal) => Promise<Result>,
  ): Promise<Result>;
};
interface Lock {
  readonly key: string | Promise<string>;
  readonly token: string | Promise<string>;
  readonly fence: string | Promise<string>;
  readonly expiresAt: number | Promise<number>;
  isHeld(): boolean | Promise<boolean>;
}

/** The message of the loss, or null if there is none until the callback has ended. */
function lossOf(loss: Lost | AbortSignal): Promise<string | null> {
  if (typeof loss === "function") return loss();
  return new Promise((resolve) => loss.addEventListener("abort", () => resolve(loss.reason.message)));
}

function locksOf({ LOCKS, IS_PLAIN, LOCK_KEY }: Env): Locks {
  return IS_PLAIN && LOCKS ? LOCKS : locks(LOCKS ?? LOCK_KEY);
}

/** How long it takes a socket to a far key to close. */
const CLOSES_AFTER_MS = 300;

/** Keys whose sockets are slow to close, as they are on the other side of the world. */
class FarKeys {
  readonly #near: DurableObjectNamespace<KeyObject>;

  constructor(near: DurableObjectNamespace<KeyObject>) {
    this.#near = near;
  }

  getByName(name: string): Pick<KeyObject, "command" | "describe" | "fetch"> {
    const near = this.#near.getByName(name);
    return {
      command: (command) => near.command(command),
      describe: (options) => near.describe(options),
      async fetch(...asked) {
        const reply = await near.fetch(...asked);
        const { webSocket } = reply;
        const close = webSocket?.close.bind(webSocket);
        if (webSocket && close) webSocket.close = (code) => void setTimeout(() => close(code), CLOSES_AFTER_MS);
        return reply;
      },
    };
  }
}

/** A class that is bound by mistake. */
export class Other extends DurableObject {}

/** One for all requests of the Worker. */
let shared: ReturnType<typeof locks> | undefined;

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

function run(env: Env, { key, options, does }: Request): Promise<unknown> {
  const { COUNTER } = env;
  const LOCKS = locksOf(env);
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

function runSeveral(env: Env, { keys, options, does }: RequestOfSeveral): Promise<unknown> {
  const LOCKS = locksOf(env);
  return LOCKS.request<unknown>(keys, options, async (locks, loss) => {
    switch (does) {
      case "show":
        return Promise.all(
          locks.map(async (lock) => {
            const { key, token, fence } = lock;
            return { key: await key, token: await token, fence: await fence, isHeld: await lock.isHeld() };
          }),
        );
      case "throw":
        throw new RangeError("the callback's own error");
      case "lose": {
        const [first] = locks;
        await LOCKS.release((await first?.key) ?? "", (await first?.token) ?? "");
        const told = await lossOf(loss);
        return { told, held: await Promise.all(locks.map((lock) => lock.isHeld())) };
      }
      case "hold":
        await scheduler.wait(600_000);
        return undefined;
      case "increment": {
        const value = await env.COUNTER.read();
        await scheduler.wait(0);
        await env.COUNTER.write(value + 1);
        return undefined;
      }
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
          const bound = locksOf(env) as unknown as Record<string, (...given: readonly unknown[]) => Promise<unknown>>;
          return Response.json({ result: await bound[call]?.(...args) });
        }
        // With `locks()` called once for all requests.
        case "/shared": {
          shared ??= locks(env.LOCKS ?? env.LOCK_KEY);
          const { key, options } = asked as Request;
          const lock = await shared.acquire(key, options);
          return Response.json({ result: [lock !== null, (await lock?.release()) ?? null] });
        }
        // Two waits, which began at different times. The second key may be far away.
        case "/both": {
          const { key, options, isSecondFar } = asked as Request & { readonly isSecondFar?: boolean };
          const own = locks(env.LOCKS ?? env.LOCK_KEY);
          const first = own.acquire(key, options);
          await scheduler.wait(400);
          const other = isSecondFar && env.LOCK_KEY ? locks(new FarKeys(env.LOCK_KEY)) : own;
          const both = await Promise.all([first, other.acquire(`${key}-2`, options)]);
          return Response.json({ result: both });
        }
        case "/request": {
          const result = await run(env, asked as Request);
          return result instanceof Response ? result : Response.json({ result });
        }
        case "/several":
          return Response.json({ result: (await runSeveral(env, asked as RequestOfSeveral)) ?? null });
        // Ends while its callback runs.
        case "/leave": {
          const running = run(env, asked as Request);
          running.catch(() => {});
          const { key } = asked as Request;
          while ((await locksOf(env).describe(key))?.holders !== 1) await scheduler.wait(10);
          return Response.json({ result: "left" });
        }
        case "/increments": {
          const all = Array.from({ length: 100 }, () =>
            "keys" in (asked as object) ? runSeveral(env, asked as RequestOfSeveral) : run(env, asked as Request),
          );
          return Response.json({ result: await Promise.all(all) });
        }
        // What a lock of `locks()` can do besides: it is renewed, looked at, and released when its block ends.
        case "/using": {
          const { key, does } = asked as Request;
          const own = locks(env.LOCKS ?? env.LOCK_KEY);
          const seen = await (async () => {
            await using lock = await own.acquire(key, { lease: 600_000 });
            if (does === "throw") throw new RangeError("the block's own error");
            const renewed = await lock?.renew({ lease: 900_000 });
            const isLonger = (lock?.expiresAt ?? 0) > Date.now() + 600_000;
            return { renewed, isLonger, lock: { ...lock }, holders: (await own.describe(key))?.holders };
          })();
          return Response.json({ result: { ...seen, holdersAfter: (await own.describe(key))?.holders } });
        }
        case "/history": {
          const { key } = asked as Request;
          const described = await env.LOCK_KEY?.getByName(key).describe({ detail: false, history: true });
          const grants = described?.history?.grants.map(({ fence, grantedAt, end }) => ({
            fence,
            endedAt: end && grantedAt + end.heldMs,
          }));
          return Response.json({ result: grants });
        }
        // The HTTP API over the binding, which answers a request and then a WebSocket.
        case "/fetch": {
          const { path, init } = asked as { readonly path: string; readonly init?: RequestInit };
          const reply = await (env.LOCKS as unknown as Fetcher).fetch(`http://holdfast${path}`, init);
          const socket = reply.webSocket;
          if (!socket) return Response.json({ result: [reply.status, await reply.text()] });
          const answer = new Promise<unknown>((resolve) => {
            socket.addEventListener("message", ({ data }) => resolve(data), { once: true });
          });
          socket.accept();
          socket.send("l\nover-the-binding\n0\n");
          const result = await answer;
          socket.close();
          return Response.json({ result });
        }
        // The client library, with the binding in place of an address.
        case "/client": {
          const { key } = asked as Request;
          const client = connect(env.LOCKS as unknown as Fetcher, { label: "by the client" });
          try {
            const lock = await client.request(key, { timeout: 20_000 }, ({ token, fence }) => ({ token, fence }));
            const sticky: string[] = [];
            for (let time = 0; time < 2; time++)
              await client.request(key, { sticky: true }, ({ fence }) => void sticky.push(fence));
            return Response.json({ result: { lock, sticky } });
          } finally {
            await client.close();
          }
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
