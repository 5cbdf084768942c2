/** `npm run deploy`, as a user runs it. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect } from "vitest";
import { temporaryDir } from "./support.ts";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** wrangler bundles the Worker, which takes seconds, and much longer on a busy machine. */
export const PATIENTLY = { timeout: 300_000 };

const OFFLINE_ENV = { CLOUDFLARE_CF_FETCH_ENABLED: "false", CLOUDFLARE_API_TOKEN: "", AUTH_TOKEN: "" };

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export function deploy(env: Readonly<Record<string, string>>, ...args: string[]): Promise<Run> {
  const running = promisify(execFile)("npm", ["run", "--silent", "deploy", "--", ...args], {
    cwd: ROOT,
    env: { ...process.env, ...OFFLINE_ENV, NO_COLOR: "1", CI: "1", ...env },
  });
  running.child.stdin?.end();
  return running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: Run) => ({ code, stdout, stderr }),
  );
}

export const withoutWarnings = (stderr: string): string => stderr.replaceAll(/^npm warn.*\n/gm, "");

/** A dry run of an environment. */
export async function buildsEverything(environment: string): Promise<void> {
  const secrets = join(temporaryDir(), "secrets");
  writeFileSync(secrets, "AUTH_TOKEN=s3cret\n");
  const ran = await deploy({}, "--dry-run", `--env=${environment}`, "--secrets-file", secrets);
  const { code, stdout, stderr } = ran;
  expect({ code, stderr: withoutWarnings(stderr) }).toEqual({ code: 0, stderr: "" });
  for (const name of ["KEY", "SESSION", "HTTP_SESSION", "DIRECTORY", "METRICS", "RATE_LIMIT", "RELAY", "AUTH_TOKEN"])
    expect(stdout).toContain(`env.${name} (`);
  expect(stdout).toContain("dry run: everything is ready to be published, and nothing was\n");
  expect(stdout).not.toContain("s3cret");
}
