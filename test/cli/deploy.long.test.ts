/** `npm run deploy` with the real wrangler, against a stand-in for the API of Cloudflare. */
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startCloudflareApi } from "../support/cloudflare-api.ts";
import { buildsEverything, deploy, PATIENTLY } from "./deploying.ts";
import { temporaryDir } from "./support.ts";

describe("npm run deploy", PATIENTLY, () => {
  test("--dry-run builds the staging environment with every object, and publishes nothing", () =>
    buildsEverything("staging"));

  test("refuses to publish an open service, publishes one with a token that it makes, and then again as it is", async () => {
    await using api = await startCloudflareApi();
    const file = join(temporaryDir(), "secrets");
    writeFileSync(file, "");
    const refused = await deploy(api.env, "--secrets-file", file);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("deploy: without AUTH_TOKEN, anybody") });
    expect(api.secrets).toBeUndefined();

    const made = await deploy(api.env, "--secrets-file", file, "--make-token");
    expect(made, made.stderr).toMatchObject({ code: 0 });
    const { AUTH_TOKEN = "" } = api.secrets ?? {};
    expect(AUTH_TOKEN).toMatch(/^[0-9a-f]{64}$/);
    expect(readFileSync(file, "utf8")).toBe(`AUTH_TOKEN=${AUTH_TOKEN}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(made.stdout).toContain("  address   https://holdfast.ada.workers.dev\n");
    expect(made.stdout).toContain(`< ${file} | cut -d= -f2-)" https://holdfast.ada.workers.dev/v1/stats\n`);
    expect(made.stdout).toContain("  console   https://holdfast.ada.workers.dev/\n");
    expect(made.stdout + made.stderr).not.toContain(AUTH_TOKEN);

    writeFileSync(file, "");
    const again = await deploy(api.env, "--secrets-file", file);
    expect(again, again.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("the one that the Worker has"),
    });
    expect(api.secrets).toEqual({ AUTH_TOKEN });
  });
});
