/**
 * Two clients and one lock, written against the generated types. Prints a line per step, for the test to read. Each
 * `@ts-expect-error` is a mistake that the types must catch: where they do not, the compiler complains.
 */
import type { paths } from "holdfast-api";
import createClient from "openapi-fetch";

const [baseUrl = ""] = process.argv.slice(2);
const api = createClient<paths>({ baseUrl });

const KEY = "build/nightly";
const path = { key: KEY };
const asSession = (id: string) => ({ "X-Dflockd-Session": id });

async function openSession(label: string): Promise<{ "X-Dflockd-Session": string }> {
  const { data } = await api.POST("/v1/sessions", { params: { header: { "X-Holdfast-Label": label } } });
  if (!data) throw new Error("no session");
  console.log(`${label} has a session, to be pinged every ${data.idle_timeout_s / 2} s`);
  return asSession(data.session_id);
}

/** Resolves once somebody waits in the queue with a deadline, not only with a place. */
async function untilSomebodyWaits(): Promise<void> {
  const deadline = Date.now() + 5_000;
  while (Date.now() < deadline) {
    const { data } = await api.GET("/v1/keys/{key}", { params: { path } });
    if (data?.queue[0]?.timeout_in_s !== undefined) return;
  }
  throw new Error("nobody waits");
}

const ada = await openSession("ada");
const bob = await openSession("bob");

const first = await api.POST("/v1/locks/{key}", { params: { path, header: ada }, body: { acquire_timeout_s: 5 } });
if (first.data?.status !== "ok") throw new Error("ada did not get the lock");
const adasToken: string = first.data.token;
console.log(`ada holds the lock for ${first.data.lease_ttl_s} s`);

const second = await api.POST("/v1/locks/{key}", { params: { path, header: bob }, body: {} });
console.log(`bob tries: ${second.data?.status}`);
// @ts-expect-error a reply that may be `timeout` has no token until its status has been looked at
second.data?.token;

const place = await api.POST("/v1/locks/{key}/enqueue", { params: { path, header: bob }, body: { lease_ttl_s: 9 } });
console.log(`bob enqueues: ${place.data?.status}`);
const again = await api.POST("/v1/locks/{key}/enqueue", { params: { path, header: bob } });
switch (again.error?.error) {
  case "already_enqueued":
    console.log(`bob enqueues again: ${again.response.status} ${again.error.error}`);
    break;
  // @ts-expect-error no reply to enqueue says this
  case "not_enqueued":
    break;
}

const renewed = await api.POST("/v1/locks/{key}/renew", {
  params: { path, header: ada },
  body: { token: adasToken, lease_ttl_s: 60 },
});
console.log(`ada renews: ${renewed.data?.remaining_s} s`);

const waiting = api.POST("/v1/locks/{key}/wait", { params: { path, header: bob }, body: { timeout_s: 20 } });
await untilSomebodyWaits();
const release = () =>
  api.POST("/v1/locks/{key}/release", { params: { path, header: ada }, body: { token: adasToken } });
console.log(`ada releases: ${(await release()).response.status}`);
const granted = await waiting;
if (granted.data?.status !== "ok") throw new Error("bob did not get the lock");
console.log(`bob holds the lock for ${granted.data.lease_ttl_s} s`);
console.log(`bob's token is the later one: ${granted.data.token > adasToken}`);
const twice = await release();
console.log(`ada releases again: ${twice.response.status} ${twice.error?.error}`);

const semaphore = await api.POST("/v1/semaphores/{key}", { params: { path, header: ada }, body: { limit: 2 } });
console.log(`ada takes it for a semaphore: ${semaphore.response.status} ${semaphore.error?.error}`);

/** Never called: what the types must refuse. */
export async function mistakes(): Promise<void> {
  // @ts-expect-error a semaphore has a limit
  await api.POST("/v1/semaphores/{key}", { params: { path, header: ada }, body: { acquire_timeout_s: 0 } });
  // @ts-expect-error a release needs a token
  await api.POST("/v1/locks/{key}/release", { params: { path, header: ada }, body: {} });
  // @ts-expect-error locks are asked for by a session
  await api.POST("/v1/locks/{key}", { params: { path }, body: {} });
  // @ts-expect-error seconds are a number
  await api.POST("/v1/locks/{key}", { params: { path, header: ada }, body: { acquire_timeout_s: "5" } });
  // @ts-expect-error no such route
  await api.GET("/v1/lock/{key}", { params: { path } });
}

for (const header of [ada, bob]) {
  const { response } = await api.DELETE("/v1/sessions/{id}", {
    params: { path: { id: header["X-Dflockd-Session"] } },
  });
  console.log(`a session ends: ${response.status}`);
}
const late = await api.POST("/v1/locks/{key}", { params: { path, header: bob }, body: {} });
console.log(`bob comes back: ${late.response.status} ${late.error?.error}`);
const { data: stats } = await api.GET("/v1/stats", { params: { query: { prefix: KEY, detail: true } } });
console.log(`locks held: ${stats?.locks.length}, idle: ${stats?.idle_locks.map(({ key }) => key)}`);
