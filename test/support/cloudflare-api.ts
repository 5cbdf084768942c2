/** The part of Cloudflare's API that `wrangler deploy` and `wrangler secret list` use, for one Worker (wrangler 4.158). */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface CloudflareApi extends AsyncDisposable {
  /** Tells wrangler to ask this one, as an account that is logged in. */
  readonly env: Readonly<Record<string, string>>;
  /** Secrets of the Worker; undefined as long as it is not deployed. */
  secrets: Readonly<Record<string, string>> | undefined;
}

const ACCOUNT = "0123456789abcdef0123456789abcdef";

/** What all other questions about a Worker that is deployed are answered with. */
const WORKER = {
  id: "00000000-0000-4000-8000-000000000001",
  startup_time_ms: 1,
  resources: { script: { etag: "x" } },
  enabled: true,
  previews_enabled: false,
  subdomain: { enabled: true, previews_enabled: false },
  default_environment: { environment: "production", script: { last_deployed_from: "wrangler", migration_tag: "v1" } },
  migration_tag: "v1",
  bindings: [],
  deployments: [],
};

/** `ada.workers.dev` is the account's part of the address. */
export async function startCloudflareApi(): Promise<CloudflareApi> {
  const api = { secrets: undefined as CloudflareApi["secrets"] };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [path = ""] = (request.url ?? "").split("?", 1);
    const answer = (result: unknown, status = 200, errors: object[] = []) =>
      response
        .writeHead(status, { "Content-Type": "application/json" })
        .end(JSON.stringify({ success: errors.length === 0, errors, messages: [], result }));
    const missing = () => answer(null, 404, [{ code: 10_007, message: "This Worker does not exist on your account." }]);
    const place = path.replace(`/accounts/${ACCOUNT}/workers`, "");
    if (request.method === "PUT" && /^\/scripts\/[^/]+$/.test(place)) {
      api.secrets = { ...api.secrets, ...secretsIn(Buffer.concat(chunks).toString("latin1")) };
      answer({ id: "holdfast", etag: "x", deployment_id: "x", startup_time_ms: 1 });
    } else if (place === "/subdomain") answer({ subdomain: "ada" });
    else if (!api.secrets && request.method === "GET") missing();
    else if (place.endsWith("/secrets"))
      answer(Object.keys(api.secrets ?? {}).map((name) => ({ name, type: "secret_text" })));
    else answer(WORKER);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(api, {
    env: {
      CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}`,
      CLOUDFLARE_API_TOKEN: "a token of the account",
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

/** Secrets are bindings in the metadata of an upload. */
function secretsIn(upload: string): Record<string, string> {
  const found = upload.matchAll(/\{"name":"(\w+)","type":"secret_text","text":"([^"]*)"\}/g);
  return Object.fromEntries([...found].map(([, name = "", text = ""]) => [name, text]));
}
