/** Where objects live. All stubs are made here, so that none leaves the jurisdiction. */
import { locationOf } from "../core/config/locations.ts";
import { configOf, type Env, type PartialEnv } from "./env.ts";
import type { KeyObject } from "./key/key-object.ts";

/** Bindings of objects. */
type Kind = { [Name in keyof Env]-?: Env[Name] extends DurableObjectNamespace<infer _> ? Name : never }[keyof Env];

/**
 * The objects of one kind. A runtime without jurisdictions throws (workerd 2026-11), so nothing is ever stored outside one.
 * A name within a jurisdiction is another object than the same name without one.
 */
export function objectsOf<Name extends Kind>(env: PartialEnv, kind: Name): Env[Name] {
  const { jurisdiction } = configOf(env);
  const objects = env[kind] as Env[Name] | undefined;
  if (!objects) throw new Error(howToBind(kind));
  return jurisdiction === undefined ? objects : (objects.jurisdiction(jurisdiction) as Env[Name]);
}

/** Whether there are objects of this kind. */
export function isBound(env: PartialEnv, kind: Kind): boolean {
  return env[kind] !== undefined;
}

/** What the configuration of a Worker lacks. */
function howToBind(kind: Kind): string {
  const className = `${kind.toLowerCase().replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase())}Object`;
  const binding = `{ name = "${kind}", class_name = "${className}" }`;
  return `there is no binding ${kind}: add ${binding} to durable_objects.bindings in wrangler.toml, and "${className}" to new_sqlite_classes`;
}

/** The object of a key. The first call ever decides where the key lives; later hints have no effect. */
export function keyObject(env: PartialEnv, key: string): DurableObjectStub<KeyObject> {
  const hint = locationOf(configOf(env).locationHints, key);
  return objectsOf(env, "KEY").getByName(key, hint && { locationHint: hint });
}
