/** Locks of etcd by its lock service: it runs the recipe of the Go client (a lease, a queue of keys, a watch) in etcd. */
import type { Address } from "./channel.ts";
import type { LockClient } from "./client.ts";
import { GrpcConnection } from "./grpc.ts";
import { decodeMessage, encodeMessage } from "./protobuf.ts";

/** Longer than a benchmark runs, so that it need not be kept alive. */
const LEASE_SECONDS = 3_600n;

export async function openEtcd(address: Address): Promise<LockClient> {
  const connection = await GrpcConnection.open(address);
  const call = (method: string, message: Buffer, answered: (fields: ReturnType<typeof decodeMessage>) => void) =>
    connection.call(method, message, (reply) => answered(decodeMessage(reply)));
  const lease = await new Promise<bigint>((resolve) =>
    call("etcdserverpb.Lease/LeaseGrant", encodeMessage({ 1: LEASE_SECONDS }), (fields) =>
      resolve(fields.get(2) as bigint),
    ),
  );
  return {
    acquire(key, granted) {
      call("v3lockpb.Lock/Lock", encodeMessage({ 1: Buffer.from(key), 2: lease }), (fields) =>
        granted((fields.get(2) as Buffer).toString("latin1")),
      );
    },
    release(_, token, released) {
      call("v3lockpb.Lock/Unlock", encodeMessage({ 1: Buffer.from(token, "latin1") }), released);
    },
    async close() {
      // With the lease go the keys of a lock that is still held.
      const revoke = encodeMessage({ 1: lease });
      await new Promise<unknown>((resolve) => call("etcdserverpb.Lease/LeaseRevoke", revoke, resolve));
      connection.close();
    },
  };
}
