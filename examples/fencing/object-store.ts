/** An object that takes writes only from the holder with the highest fence it has seen, in a store with conditional writes. */
export interface ConditionalObject {
  /** What is there, and its entity tag; null if nothing is. */
  read(): Promise<{ readonly text: string; readonly etag: string } | null>;
  /** Writes if what was seen is still there, or still nothing; false if not. */
  write(text: string, seen: string | null): Promise<boolean>;
}

/** False if somebody with a higher fence has written before: the lock is lost, and so is this write. */
export async function writeFenced(object: ConditionalObject, fence: string, value: unknown): Promise<boolean> {
  for (;;) {
    const seen = await object.read();
    if (seen && fence < (JSON.parse(seen.text) as { fence: string }).fence) return false;
    if (await object.write(JSON.stringify({ fence, value }), seen?.etag ?? null)) return true;
  }
}

/** Somebody else was faster: 412, in S3 also 409; 404 if the object was deleted meanwhile. */
const OVERTAKEN = new Set([412, 409, 404]);

/** An object in S3, or in R2 by its S3 API. `send` is `fetch`, or what signs requests before it. */
export function s3Object(url: string, send: typeof fetch = fetch): ConditionalObject {
  return {
    async read() {
      const reply = await send(url);
      const text = await reply.text();
      if (reply.status === 404) return null;
      if (!reply.ok) throw new Error(`the store answered ${reply.status}`);
      return { text, etag: reply.headers.get("ETag") ?? "" };
    },
    async write(text, seen) {
      const headers: HeadersInit = seen === null ? { "If-None-Match": "*" } : { "If-Match": seen };
      const reply = await send(url, { method: "PUT", headers, body: text });
      await reply.arrayBuffer();
      if (!reply.ok && !OVERTAKEN.has(reply.status)) throw new Error(`the store answered ${reply.status}`);
      return reply.ok;
    },
  };
}
