/**
 * Setup: an error that escapes an event of an object, or work that it left to `waitUntil`, reaches no caller. The runtime
 * would only mention it in its own output, among all the rejected calls that callers do handle. So it is logged here, and
 * fails the test unless it is expected with `expectLog("uncaught", …)`.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll } from "vitest";
import * as service from "../../src/cloudflare/index.ts";

const EVENTS = ["alarm", "webSocketMessage", "webSocketClose", "webSocketError"];

type Method = (this: unknown, ...args: unknown[]) => unknown;

/** Files without isolation share the classes. */
const watched = new WeakSet<Method>();

function wrap(prototype: object, name: string, around: (original: Method) => Method): void {
  const methods = prototype as Record<string, Method>;
  const original = methods[name];
  if (!original || watched.has(original)) return;
  const wrapped = around(original);
  watched.add(wrapped);
  methods[name] = wrapped;
}

function logUncaught(place: string): (error: unknown) => void {
  return (error) => console.error(JSON.stringify({ event: "uncaught", in: place, error: String(error) }));
}

function watchEvents(Class: { readonly name: string; readonly prototype: object }): void {
  for (const name of EVENTS) {
    wrap(Class.prototype, name, (original) => {
      return function (...args) {
        const result = original.apply(this, args);
        if (result instanceof Promise) result.catch(logUncaught(`${Class.name}.${name}`));
        return result;
      };
    });
  }
}

function watchWaitUntil(state: DurableObjectState): void {
  wrap(Object.getPrototypeOf(state), "waitUntil", (original) => {
    return function (task) {
      if (task instanceof Promise) task.catch(logUncaught("waitUntil"));
      return original.call(this, task);
    };
  });
}

beforeAll(async () => {
  for (const Class of Object.values(service)) if (typeof Class === "function") watchEvents(Class);
  await runInDurableObject(env.RATE_LIMIT.getByName("a sample"), (_, state) => watchWaitUntil(state));
});
