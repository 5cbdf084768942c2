import type { ConditionalObject } from "./object-store.ts";

/** An object in R2, by a Worker's binding; for `writeFenced`. */
export function r2Object(bucket: R2Bucket, key: string): ConditionalObject {
  return {
    async read() {
      const object = await bucket.get(key);
      return object && { text: await object.text(), etag: object.etag };
    },
    async write(text, seen) {
      const onlyIf = seen === null ? new Headers({ "If-None-Match": "*" }) : { etagMatches: seen };
      return (await bucket.put(key, text, { onlyIf })) !== null;
    },
  };
}
