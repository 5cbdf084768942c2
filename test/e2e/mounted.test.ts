/** The whole service inside another Worker, under a path of that Worker's own: examples/whole-service, as it is packed. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readWranglerConfig } from "../../scripts/dev-config.ts";
import { connect } from "../../src/client/index.ts";
import { startWorker, type TestWorker } from "../support/cloudflare-server.ts";
import { startRequest } from "../support/http-client.ts";
import { storageFolder } from "../support/storage.ts";
import { bundleWorker, type Worker } from "../support/worker.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/whole-service/", import.meta.url));

const folder = storageFolder();
let workers: TestWorker;

beforeAll(async () => {
  const script = join(folder, "site.js");
  await bundleWorker(join(EXAMPLE, "index.ts"), script);
  const config = readWranglerConfig(join(EXAMPLE, "wrangler.toml"));
  const { bindings } = config.durable_objects as { bindings: Worker["objects"] };
  const compatibilityFlags = config.compatibility_flags as string[];
  const site = { name: "site", script, compatibilityFlags, objects: bindings, services: {} };
  workers = await startWorker({ neighbours: [site] });
});

afterAll(async () => {
  await workers?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const origin = () => `http://127.0.0.1:${workers.portOf("site")}`;
const get = (path: string) => fetch(`${origin()}${path}`, { redirect: "manual" });

describe("a service mounted under /locks", () => {
  it("leaves all other paths to the site", async () => {
    for (const path of ["/", "/lockset", "/v1/stats"]) expect(await (await get(path)).text()).toBe("the site");
  });

  it("answers its routes there, and says where they are listed", async () => {
    expect(await (await get("/locks/health")).json()).toEqual({ status: "ok" });
    expect((await get("/locks/v1/stats")).status).toBe(200);
    expect((await get("/locks/v1/keys/health")).status).toBe(404);
    const nothing = await get("/locks/nothing");
    expect([nothing.status, await nothing.text()]).toEqual([404, expect.stringContaining("docs lists all routes")]);
  });

  it("shows its console, with everything that the page loads", async () => {
    const bare = await get("/locks");
    expect([bare.status, bare.headers.get("Location")]).toEqual([308, "/locks/"]);
    const page = await (await get("/locks/")).text();
    expect(page).toContain(`curl ${origin()}/locks/v1/stats`);
    const links = [...page.matchAll(/(?:href|src)="([^"#:]+)"/g)].map(([, link = ""]) => link);
    expect(links).toHaveLength(3);
    for (const link of links) {
      const { pathname } = new URL(link, `${origin()}/locks/`);
      expect([pathname, (await get(pathname)).status]).toEqual([expect.stringMatching(/^\/locks\//), 200]);
    }
  });

  it("has a reference and an OpenAPI document that name its address", async () => {
    const reference = await (await get("/locks/docs")).text();
    expect(reference).toContain(`${new URL(origin()).host}/locks/v1/stats`);
    expect(reference).toContain('href="/locks/v1/openapi.json"');
    const document = (await (await get("/locks/v1/openapi.json")).json()) as { servers: unknown };
    expect(document.servers).toEqual([{ url: "/locks" }]);
  });

  it("says where a lock file is that it has made", async () => {
    const headers = { "If-None-Match": "*" };
    const made = await fetch(`${origin()}/locks/v1/files/a%2Fb`, { method: "PUT", headers });
    expect([made.status, made.headers.get("Location")]).toEqual([201, "/locks/v1/files/a%2Fb"]);
    expect((await get(made.headers.get("Location") ?? "")).status).toBe(200);
  });

  it("puts nothing into a page that is not the beginning of a path", async () => {
    expect((await get("/locks/%22%3E/docs")).status).toBe(200);
    const raw = startRequest(workers.portOf("site"), { method: "GET", path: '/locks/"><b>/docs' });
    expect((await raw.reply).body).not.toContain("><b>");
  });

  it("has sessions over HTTP and over a WebSocket, in one queue", async () => {
    await using client = connect(`${origin()}/locks`);
    await using lock = await client.acquire("mounted");
    const opened = await fetch(`${origin()}/locks/v1/sessions`, { method: "POST" });
    const { session_id: session } = (await opened.json()) as { session_id: string };
    const acquire = async () => {
      const headers = { "X-Dflockd-Session": session };
      const path = `${origin()}/locks/v1/locks/mounted`;
      const reply = await fetch(path, { method: "POST", headers, body: '{"acquire_timeout_s":0}' });
      return ((await reply.json()) as { status: string }).status;
    };
    expect(await acquire()).toBe("timeout");
    await lock.release();
    expect(await acquire()).toBe("ok");
  });
});
