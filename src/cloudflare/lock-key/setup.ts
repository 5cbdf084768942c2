/** Errors about the setup of a Worker. Each says what to add to its wrangler.toml. */
import { badArgument, shownAs } from "../locks/arguments.ts";
import { locksError } from "../locks/errors.ts";

const NAMESPACE = `[[durable_objects.bindings]]
name = "LOCK_KEY"
class_name = "LockKey"`;

const MIGRATION = `[[migrations]]
tag = "v1"
new_sqlite_classes = ["LockKey"]`;

const SERVICE = `[[services]]
binding = "LOCKS"
service = "holdfast"
entrypoint = "Locks"`;

const EXPORT = 'export { LockKey } from "holdfast/durable-object";';

export function notABinding(given: unknown): Error {
  const what = given === undefined ? "there is no such binding" : `not ${shownAs(given)}`;
  return badArgument(
    `locks() takes a namespace of LockKey or a service binding: ${what}. For a namespace add to wrangler.toml\n\n` +
      `${NAMESPACE}\n\n${MIGRATION}\n\nand to the Worker\n\n${EXPORT}\n\nFor a service binding add\n\n${SERVICE}\n`,
  );
}

/** What is wrong with the setup of a namespace, if a call fails like this. */
export function faultOfKey(error: unknown): Error | undefined {
  const text = String(error);
  if (/receiver does not implement|does not export a fetch/.test(text))
    return locksError(
      "UnavailableError",
      `the namespace is bound to a class that is not LockKey. In wrangler.toml its binding must be\n\n${NAMESPACE}\n\n` +
        `and the Worker must have\n\n${EXPORT}\n`,
    );
  if (/not backed by SQLite|SQL is not enabled/.test(text))
    return locksError(
      "UnavailableError",
      `LockKey has no SQLite storage, because its migration is missing or names it in new_classes. Add to wrangler.toml\n\n${MIGRATION}\n`,
    );
  return undefined;
}

/** The same for a service binding. */
export function faultOfService(error: unknown): Error | undefined {
  if (!/receiver does not implement/.test(String(error))) return undefined;
  return locksError(
    "UnavailableError",
    `the service binding does not lead to the entrypoint Locks of holdfast. In wrangler.toml it must be\n\n${SERVICE}\n`,
  );
}
