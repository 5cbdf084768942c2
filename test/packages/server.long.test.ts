import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../cli/support.ts";
import { EmptyFolder, packAll, packed } from "./support.ts";

const MAX_INSTALLED_BYTES = 8 * 2 ** 20;

describe("holdfast, packed and installed in an empty folder", () => {
  let folder: EmptyFolder;
  let installed: string[];
  beforeAll(async () => {
    packAll();
    folder = new EmptyFolder();
    installed = await folder.install(packed("holdfast"));
  });
  afterAll(() => folder[Symbol.dispose]());

  const npx = (...args: string[]) => folder.run("npx", ["--no", "--", "holdfast", ...args]);

  it("brings nothing else: no dependencies, no native code, a few megabytes", () => {
    expect(installed).toEqual(["holdfast"]);
    const files = folder.filesOf("holdfast");
    const manifest = JSON.parse(readFileSync(join(folder.path, "node_modules/holdfast/package.json"), "utf8"));
    const brings = Object.keys(manifest).filter((name) => /dependencies|scripts|workspaces|overrides/i.test(name));
    expect(brings).toEqual([]);
    expect(files.filter(({ name }) => !/(\.(js|json|md|d\.ts)|LICENSE)$/.test(name))).toEqual([]);
    expect(files.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThan(MAX_INSTALLED_BYTES);
  });

  it("serves, and runs a command under a lock", async () => {
    const [port, httpPort] = [await freePort(), await freePort()];
    const ports = ["--port", String(port), "--http-port", String(httpPort), "--godistlock-port", "0"];
    await using server = await serve(folder, ports);
    expect(server.said).toContain(`http://127.0.0.1:${httpPort}`);
    expect(existsSync(join(folder.path, ".holdfast/holdfast.db"))).toBe(true);
    const url = `http://127.0.0.1:${httpPort}`;
    expect(await npx("ping", "--url", url)).toMatch(/^ok /);
    const printed = await npx("run", "--key", "packaged", "--url", url, "--", "sh", "-c", "echo $HOLDFAST_KEY");
    expect(printed).toBe("packaged\n");
    const page = await fetch(`${url}/`);
    expect(await page.text()).toContain("<title>holdfast");
  });

  it("has lock files, help and runs", async () => {
    expect(await npx("--version")).toMatch(/^holdfast \d+\.\d+\.\d+\n$/);
    expect((await npx("--help")).split("\n").length).toBeLessThanOrEqual(24);
    expect(await npx("file", "try", "x.lock")).toBe("acquired x.lock\n");
    expect(await npx("run", "--file", "y.lock", "--", "sh", "-c", "echo held")).toBe("held\n");
  });
});

interface Serving extends AsyncDisposable {
  /** The line that it prints once it serves. */
  readonly said: string;
}

async function serve(folder: EmptyFolder, flags: readonly string[]): Promise<Serving> {
  const child: ChildProcess = spawn("npx", ["--no", "--", "holdfast", "serve", ...flags], {
    cwd: folder.path,
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const said = child.stdout ? String((await once(child.stdout, "data"))[0]) : "";
  return {
    said,
    async [Symbol.asyncDispose]() {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}
