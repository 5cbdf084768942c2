/** A store with the conditional requests of S3: entity tags are made of the content alone, and wrong ones answer 412. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

export interface TestStore extends AsyncDisposable {
  readonly url: string;
  /** How many writes were refused because what they had seen was not there any more. */
  readonly overtaken: number;
  /** Runs once, before the next write is looked at: the moment in which somebody else is faster. */
  beforeNextWrite(call: () => Promise<unknown>): void;
}

const etagOf = (body: Buffer) => `"${createHash("md5").update(body).digest("hex")}"`;

export async function startS3(): Promise<TestStore> {
  const objects = new Map<string, Buffer>();
  let overtaken = 0;
  let interlude: (() => Promise<unknown>) | undefined;

  const put = async (path: string, request: IncomingMessage): Promise<number> => {
    const body = Buffer.concat(await request.toArray());
    const call = interlude;
    interlude = undefined;
    await call?.();
    const { "if-match": wanted, "if-none-match": unwanted } = request.headers;
    const present = objects.get(path);
    if (wanted !== undefined && !present) return 404;
    const isRefused = present && (unwanted === "*" || (wanted !== undefined && wanted !== etagOf(present)));
    if (isRefused) {
      overtaken += 1;
      return 412;
    }
    objects.set(path, body);
    return 200;
  };

  const server = createServer(async (request, response) => {
    const path = request.url ?? "/";
    if (request.method === "PUT") response.writeHead(await put(path, request)).end();
    else {
      const body = objects.get(path);
      if (body) response.writeHead(200, { ETag: etagOf(body) }).end(body);
      else response.writeHead(404).end("<Error><Code>NoSuchKey</Code></Error>");
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bucket`,
    get overtaken() {
      return overtaken;
    },
    beforeNextWrite(call) {
      interlude = call;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
