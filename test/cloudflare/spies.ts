/**
 * Spies on one key or one session. Objects of tests that are over may still be at work in the same runtime, and a spy on
 * a prototype sees all of them.
 */
import { type MockInstance, vi } from "vitest";
import type {
  KeyObjectAnswer,
  KeyObjectCommand,
  KeyObjectCommandOf,
  KeyObjectCommandType,
  KeyObjectOutcomeOf,
} from "../../src/cloudflare/calls/key-calls.ts";
import { KeyObject } from "../../src/cloudflare/key/key-object.ts";

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

type Outcome<Type extends KeyObjectCommandType> = KeyObjectOutcomeOf<Type> | Promise<KeyObjectOutcomeOf<Type>>;

/** Stands in for a key: `carryOut` is what the key would have done. */
type StandIn<Type extends KeyObjectCommandType> = (
  this: KeyObject,
  command: KeyObjectCommandOf<Type>,
  carryOut: () => Promise<KeyObjectOutcomeOf<Type>>,
) => Outcome<Type>;

/** The commands that have arrived so far and are about this key or session. */
type Arrived<Type extends KeyObjectCommandType> = (name: string) => KeyObjectCommandOf<Type>[];

/** Replaces how keys carry out commands of one type, until mocks are restored. */
export function replaceCommand<Type extends KeyObjectCommandType>(
  type: Type,
  standIn: StandIn<Type> = (_, carryOut) => carryOut(),
): Arrived<Type> {
  return replaceIf(type, () => true, standIn);
}

/** Replaces how a key carries out the next command of one type that is about this key or session. */
export function replaceNextCommand<Type extends KeyObjectCommandType>(
  type: Type,
  name: string,
  standIn: StandIn<Type>,
): Arrived<Type> {
  let isDue = true;
  const isMeant = (object: KeyObject, command: KeyObjectCommand) => {
    if (!isDue || !isAbout(name, object, [command])) return false;
    isDue = false;
    return true;
  };
  return replaceIf(type, isMeant, standIn);
}

function replaceIf<Type extends KeyObjectCommandType>(
  type: Type,
  isMeant: (object: KeyObject, command: KeyObjectCommand) => boolean,
  standIn: StandIn<Type>,
): Arrived<Type> {
  const arrived: { readonly object: KeyObject; readonly command: KeyObjectCommandOf<Type> }[] = [];
  const known = KeyObject.prototype.command;
  const before = (vi.isMockFunction(known) && known.getMockImplementation()) || known;
  vi.spyOn(KeyObject.prototype, "command").mockImplementation(async function (this: KeyObject, command) {
    const carryOut = (): Promise<KeyObjectAnswer> => before.call(this, command);
    if (command.type !== type) return carryOut();
    const asked = command as KeyObjectCommandOf<Type>;
    arrived.push({ object: this, command: asked });
    if (!isMeant(this, command)) return carryOut();
    const outcome = await standIn.call(this, asked, async () => (await carryOut()).outcome as KeyObjectOutcomeOf<Type>);
    return { outcome };
  });
  return (name) => arrived.filter((each) => isAbout(name, each.object, [each.command])).map(({ command }) => command);
}
