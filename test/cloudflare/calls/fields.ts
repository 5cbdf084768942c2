/** Objects as another version of the service may send them: with fields that we do not know, and without those that it need not send. */

/** The fields that may be absent, also those of nested objects: `a.b` is that of `a`. */
export type OptionalPath<Value> = Value extends
  | string
  | number
  | bigint
  | boolean
  | undefined
  | null
  | readonly unknown[]
  ? never
  : Value extends object
    ? { [Name in keyof Value & string]-?: PathAt<Value, Name> }[keyof Value & string]
    : never;

type PathAt<Value, Name extends keyof Value & string> = string extends Name
  ? never
  :
      | (Record<never, never> extends Pick<Value, Name> ? Name : never)
      | `${Name}.${OptionalPath<NonNullable<Value[Name]>>}`;

/** What one method is sent. */
export interface Sample<Asked> {
  /** With as many optional fields as go together. */
  readonly asked: Asked;
  /** Every field that may be absent. */
  readonly optional: { readonly [Path in OptionalPath<Asked>]: true };
  /** Every answer matches this. */
  readonly answers: unknown;
}

const UNKNOWN = "of another version";

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A copy in which each object has one field more, but for those that map names to values. */
export function withUnknownFields<Value>(value: Value, maps: readonly string[] = ["labels", "sums"]): Value {
  if (Array.isArray(value)) return value.map((each) => withUnknownFields(each, maps)) as Value;
  if (!isPlain(value)) return value;
  const fields = Object.entries(value).map(([name, field]) => [
    name,
    maps.includes(name) ? field : withUnknownFields(field, maps),
  ]);
  return { ...Object.fromEntries(fields), [UNKNOWN]: { [UNKNOWN]: UNKNOWN } };
}

/** A copy without this field. */
export function without<Value>(value: Value, path: string): Value {
  if (!isPlain(value)) return value;
  const [name = "", ...rest] = path.split(".");
  const { [name]: field, ...others } = value;
  if (rest.length === 0 || field === undefined) return others as Value;
  return { ...others, [name]: without(field, rest.join(".")) } as Value;
}
