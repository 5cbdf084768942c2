/** Locks of etcd by its lock service, over gRPC: it runs the recipe of the Go client (a lease, a queue of keys, a watch) in etcd. */
import { type ClientHttp2Session, connect } from "node:http2";
import type { Address, LockClient } from "../client.ts";
import { decodeMessage, encodeMessage, type Field } from "./protobuf.ts";

/** Longer than a benchmark runs, so that it need not be kept alive. */
const LEASE_SECONDS = 3_600n;

export async function openEtcd({ host, port }: Address): Promise<LockClient> {
  const session = connect(`http://${host}:${port}`);
  // A request that is under way fails with the session.
  session.on("error", () => {});
  const lease = numberIn(await call(session, "etcdserverpb.Lease/LeaseGrant", { 1: LEASE_SECONDS }), 2);
  return {
    async acquire(key) {
      const reply = await call(session, "v3lockpb.Lock/Lock", { 1: Buffer.from(key), 2: lease });
      const lock = reply.get(2);
      if (!Buffer.isBuffer(lock)) throw new Error("etcd answered without a lock");
      return lock.toString("latin1");
    },
    async release(_, token) {
      await call(session, "v3lockpb.Lock/Unlock", { 1: Buffer.from(token, "latin1") });
    },
    close: () => session.close(),
  };
}

function numberIn(fields: ReadonlyMap<number, Field>, number: number): bigint {
  const value = fields.get(number);
  if (typeof value !== "bigint") throw new Error(`etcd answered without field ${number}`);
  return value;
}

/** One unary call. */
function call(
  session: ClientHttp2Session,
  method: string,
  message: Readonly<Record<number, Field>>,
): Promise<Map<number, Field>> {
  const body = encodeMessage(message);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(body.length, 1);
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":path": `/${method}`,
      "content-type": "application/grpc",
      te: "trailers",
    });
    const chunks: Buffer[] = [];
    let status = "";
    const note = (headers: Readonly<Record<string, unknown>>) => {
      if (headers["grpc-status"] !== undefined) status = `${headers["grpc-status"]} ${headers["grpc-message"] ?? ""}`;
    };
    stream.on("response", note);
    stream.on("trailers", note);
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.once("error", reject);
    stream.once("end", () => {
      if (status.startsWith("0 ")) resolve(decodeMessage(Buffer.concat(chunks).subarray(5)));
      else reject(new Error(`etcd answered ${method} with ${status}`));
    });
    stream.end(Buffer.concat([head, body]));
  });
}
