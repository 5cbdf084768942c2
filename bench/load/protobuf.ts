/** As much of protocol buffers as etcd's lock service needs: numbers and bytes, by field number. */
export type Field = bigint | Buffer;

export function encodeMessage(fields: Readonly<Record<number, Field>>): Buffer {
  const parts = Object.entries(fields).flatMap(([number, value]) =>
    typeof value === "bigint"
      ? [varint(BigInt(number) << 3n), varint(value)]
      : [varint((BigInt(number) << 3n) | 2n), varint(BigInt(value.length)), value],
  );
  return Buffer.concat(parts);
}

/** The last value of each field. */
export function decodeMessage(bytes: Buffer): Map<number, Field> {
  const fields = new Map<number, Field>();
  let at = 0;
  const next = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error("a message ends too early");
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = next();
    const number = Number(tag >> 3n);
    const kind = tag & 7n;
    if (kind === 0n) fields.set(number, next());
    else if (kind === 2n) {
      const end = Number(next()) + at;
      fields.set(number, bytes.subarray(at, end));
      at = end;
    } else throw new Error(`a field of kind ${kind} is not understood`);
  }
  return fields;
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  do {
    bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0));
    rest >>= 7n;
  } while (rest > 0n);
  return Buffer.from(bytes);
}
