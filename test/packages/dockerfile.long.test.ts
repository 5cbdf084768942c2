/** Carries the steps of the Dockerfile out in empty folders: there need not be a Docker engine where the tests run. */
import { execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { freePort } from "../cli/support.ts";
import { ROOT } from "./support.ts";

/** One stage: a folder that stands for the root of its file system. */
class Stage {
  readonly root = mkdtempSync(join(tmpdir(), "holdfast-image-"));
  #workDir = "/";
  command: string[] = [];

  constructor() {
    onTestFinished(() => rmSync(this.root, { recursive: true, force: true, maxRetries: 3 }));
    for (const folder of ["tmp", "home/node", "usr/local/bin"]) mkdirSync(join(this.root, folder), { recursive: true });
  }

  /** Where a path of the image is here. */
  at(path: string): string {
    return join(this.root, path.startsWith("/") ? path : join(this.#workDir, path));
  }

  /** A command line of the image, with its absolute paths as they are here. */
  #localised(words: string): string {
    return words.replaceAll(
      /(^|\s)(\/(?:tmp|home|holdfast)\S*)/g,
      (_, blank: string, path: string) => blank + this.at(path),
    );
  }

  get environment(): NodeJS.ProcessEnv {
    const clean = Object.entries(process.env).filter(([name]) => !/^(npm_|DFLOCKD_|HOLDFAST_|NODE_ENV)/.test(name));
    const path = `${this.at("/usr/local/bin")}:${dirname(process.execPath)}:${process.env.PATH}`;
    return {
      ...Object.fromEntries(clean),
      PATH: path,
      npm_config_prefix: this.at("/usr/local"),
      npm_config_prefer_offline: "true",
    };
  }

  async take(instruction: string, rest: string, stages: ReadonlyMap<string, Stage>): Promise<void> {
    if (instruction === "WORKDIR") {
      this.#workDir = rest;
      mkdirSync(this.at(rest), { recursive: true });
    } else if (instruction === "COPY") this.#copy(rest.split(" "), stages);
    else if (instruction === "RUN") {
      const options = { cwd: this.at(this.#workDir), env: this.environment, maxBuffer: 2 ** 24 };
      await promisify(execFile)("sh", ["-c", this.#localised(rest)], options);
    } else if (instruction === "CMD") {
      this.command = (JSON.parse(rest) as string[]).map((word) => this.#localised(word));
    } else expect(["USER", "VOLUME", "EXPOSE"]).toContain(instruction);
  }

  #copy(words: readonly string[], stages: ReadonlyMap<string, Stage>): void {
    const from = stages.get(/^--from=(.+)$/.exec(words[0] ?? "")?.[1] ?? "");
    const [source = "", target = ""] = words.slice(-2);
    if (from) cpSync(from.at(source), join(this.at(target), source.slice(source.lastIndexOf("/"))));
    else {
      const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
        cwd: ROOT,
      });
      for (const name of String(listed).split("\0").filter(Boolean)) {
        cpSync(join(ROOT, name), join(this.at(target), name), { force: true });
      }
    }
  }
}

it("the Dockerfile makes an image that serves", { timeout: 300_000 }, async () => {
  const stages = new Map<string, Stage>();
  let stage: Stage | undefined;
  for (const [, instruction = "", rest = ""] of readFileSync(join(ROOT, "Dockerfile"), "utf8").matchAll(
    /^([A-Z]+) (.+)$/gm,
  )) {
    if (instruction === "FROM") {
      stage = new Stage();
      stages.set(/ AS (.+)$/.exec(rest)?.[1] ?? "", stage);
      expect(rest).toMatch(/^node:24/);
    } else await stage?.take(instruction, rest, stages);
  }
  if (!stage) throw new Error("the Dockerfile has no stage");

  const httpPort = await freePort();
  const ports = {
    DFLOCKD_PORT: String(await freePort()),
    DFLOCKD_HTTP_PORT: String(httpPort),
    DFLOCKD_GODISTLOCK_PORT: "0",
  };
  const [file = "", ...args] = stage.command;
  const child = spawn(file, args, {
    env: { ...stage.environment, ...ports },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(async () => {
    child.kill("SIGTERM");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  expect(String((await once(child.stdout, "data"))[0])).toContain(" ready: ");
  const health = await fetch(`http://127.0.0.1:${httpPort}/health`);
  expect(await health.json()).toEqual({ status: "ok" });
});
