/** Who may copy the database, and where there is one. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../support/hosts.ts";
import type { TestServer } from "../../support/server.ts";

const TOKEN = "open-sesame";
const ADMIN = "let-me-in";

describe.each(HOSTS)("a copy of the database, on $name", (host) => {
  let server: TestServer;
  beforeAll(async () => {
    server = await host.start({ variables: { AUTH_TOKEN: TOKEN, ADMIN_TOKEN: ADMIN } });
  });
  afterAll(() => server.stop());

  const ask = (token: string) => {
    const headers = { Authorization: `Bearer ${token}` };
    return fetch(`http://127.0.0.1:${server.httpPort}/v1/admin/backup`, { headers });
  };

  it("is for administrators only", async () => {
    const refused = await ask(TOKEN);
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ error: "forbidden", detail: expect.stringContaining("admin token") });
    expect((await ask("open-barley")).status).toBe(401);
  });

  it("is there where there is a file, and elsewhere the answer says why not", async () => {
    const reply = await ask(ADMIN);
    if (host.name === "Node") {
      expect(reply.status).toBe(200);
      expect(Buffer.from(await reply.arrayBuffer()).toString("latin1")).toMatch(/^SQLite format 3\0/);
      return;
    }
    expect(reply.status).toBe(404);
    expect(await reply.json()).toEqual({
      error: "not_found",
      detail: "there is no file to copy: on Cloudflare each key is an object with storage of its own",
    });
  });
});
