/**
 * Spies on one key or one session. Objects of tests that are over may still be at work in the same runtime, and a spy on
 * a prototype sees all of them.
 */
import { type MockInstance, vi } from "vitest";

// biome-ignore lint/suspicious/noExplicitAny: what a method takes and returns is its own affair.
type Method = (...args: any[]) => any;
type MethodsOf<Host> = { [Name in keyof Host]: Host[Name] extends Method ? Name : never }[keyof Host];
type ArgsOf<Host, Name extends keyof Host> = Host[Name] extends Method ? Parameters<Host[Name]> : never;
type ResultOf<Host, Name extends keyof Host> = Host[Name] extends Method ? ReturnType<Host[Name]> : never;

/** Whether a call was made on the object that bears the name, or with an argument that has it. */
function isAbout(name: string, object: unknown, args: readonly unknown[]): boolean {
  const { ctx } = object as { ctx?: DurableObjectState };
  const words = JSON.stringify(args, (_, value) => (typeof value === "bigint" ? `${value}` : value));
  return (ctx?.id.name ?? `${ctx?.id}`).includes(name) || words.includes(name);
}

/** The arguments of the calls that were about this key or session. */
export function callsAbout<Of extends Method>(spy: MockInstance<Of>, name: string): MockInstance<Of>["mock"]["calls"] {
  return spy.mock.calls.filter((args, call) => isAbout(name, spy.mock.contexts[call], args));
}

/** Replaces a method for the next call about this key or session. Returns the spy on all calls. */
export function replaceNext<Host extends object, Name extends MethodsOf<Host>>(
  prototype: Host,
  method: Name,
  name: string,
  replacement: (this: Host, ...args: ArgsOf<Host, Name>) => ResultOf<Host, Name>,
): MockInstance<Method> {
  const original = prototype[method] as Method;
  let isDue = true;
  const spy = vi.spyOn(prototype as Record<string, Method>, method as string);
  return spy.mockImplementation(function (this: Host, ...args) {
    if (!isDue || !isAbout(name, this, args)) return original.apply(this, args);
    isDue = false;
    return replacement.apply(this, args as ArgsOf<Host, Name>);
  });
}
