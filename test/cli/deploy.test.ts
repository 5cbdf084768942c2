/** `npm run deploy`: never open by accident. Nothing here asks Cloudflare anything. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  addressIn,
  type Deployed,
  deployedFrom,
  hasSecret,
  instructions,
  type Known,
  newToken,
  readDeployOptions,
  secretsFileOf,
  sourceOfToken,
  wranglerArguments,
} from "../../scripts/deploy-plan.ts";
import { readWranglerConfig } from "../../scripts/dev-config.ts";
import { VARIABLES } from "../../src/core/config/config.ts";
import { buildsEverything, deploy, PATIENTLY, ROOT, withoutWarnings } from "./deploying.ts";
import { temporaryDir } from "./support.ts";

const NONE: Deployed = { status: "none" };
const WITH_TOKEN: Deployed = { status: "deployed", secrets: ["ADMIN_TOKEN", "AUTH_TOKEN"] };
const WITHOUT: Deployed = { status: "deployed", secrets: ["ADMIN_TOKEN"] };
const OFFLINE: Deployed = { status: "unknown", reason: "not logged in" };

/** Where the token comes from, or the message of the refusal. */
function decided(args: string[], deployed: Deployed, known: Partial<Known> & { text?: string } = {}) {
  const options = readDeployOptions(args);
  const file = { name: secretsFileOf(options), text: known.text };
  const all = { variables: [], exported: undefined, ...known, file };
  return sourceOfToken(options, all, async () => deployed).catch((error: Error) => error.message);
}

describe("a deployment without a token", () => {
  test.each([
    ["the first one", NONE],
    ["one of a Worker that has other secrets", WITHOUT],
  ])("is refused, with what to do: %s", async (_, deployed) => {
    expect(await decided([], deployed)).toMatch(/^without AUTH_TOKEN, anybody .*--make-token.*--secrets-file.*--open/);
  });

  test("is refused if Cloudflare does not tell whether there is one", async () => {
    const message = await decided([], OFFLINE);
    expect(message).toMatch(/^\.secrets has no AUTH_TOKEN, .*\(not logged in\): log in with `npx wrangler login`/);
    expect(message).toContain("--open");
  });

  test("is made if it is meant to be open", async () => {
    for (const deployed of [NONE, WITHOUT, OFFLINE]) expect(await decided(["--open"], deployed)).toBe("nowhere");
  });

  test("in a dry run is refused without asking anybody", async () => {
    expect(await decided(["--dry-run"], WITH_TOKEN)).toMatch(/^without AUTH_TOKEN/);
    expect(await decided(["--dry-run", "--open"], WITH_TOKEN)).toBe("nowhere");
  });
});

describe("a deployment with a token", () => {
  test.each<[string, string[], Deployed, Partial<Known> & { text?: string }, string]>([
    ["that the Worker has", [], WITH_TOKEN, {}, "deployed"],
    ["that is in .secrets", [], NONE, { text: "AUTH_TOKEN=abc\n" }, "file"],
    ["that is in a file that is named", ["--secrets-file", "mine"], NONE, { text: '{"AUTH_TOKEN":"abc"}' }, "file"],
    ["that is exported", [], NONE, { exported: "abc" }, "exported"],
    ["that is to be made", ["--make-token"], NONE, {}, "made"],
    ["that is to be made, beside other secrets", ["--make-token"], NONE, { text: "ADMIN_TOKEN=abc" }, "made"],
    ["that is made already", ["--make-token"], NONE, { text: "AUTH_TOKEN=abc" }, "file"],
    ["in wrangler.toml", [], NONE, { variables: ["AUTH_TOKEN"] }, "variable"],
    ["that the Worker keeps, though told --open", ["--open"], WITH_TOKEN, {}, "deployed"],
  ])("goes ahead: one %s", async (_, args, deployed, known, source) => {
    expect(await decided(args, deployed, known)).toBe(source);
  });

  test.each([
    [["--secrets-file", "gone"], {}, "--secrets-file gone is not there"],
    [["--open"], { text: "AUTH_TOKEN=abc" }, "--open, but .secrets has an AUTH_TOKEN: remove one of them"],
    [["--make-token"], { text: "{}" }, "--make-token cannot add to .secrets, which is JSON: add AUTH_TOKEN yourself"],
  ])("is refused if %j contradicts what is there", async (args, known, message) => {
    expect(await decided(args, NONE, known)).toBe(message);
  });

  test.each([
    ["AUTH_TOKEN=abc", true],
    ['# mine\nexport AUTH_TOKEN="a b"\n', true],
    ["  AUTH_TOKEN = 'abc'", true],
    ['{ "AUTH_TOKEN": "abc" }', true],
    ["AUTH_TOKEN=", false],
    ['AUTH_TOKEN=""', false],
    ["AUTH_TOKEN= \nADMIN_TOKEN=abc", false],
    ["# AUTH_TOKEN=abc", false],
    ["MY_AUTH_TOKEN=abc", false],
    ['{ "AUTH_TOKEN": "" }', false],
  ])("is found in a file of secrets: %j is %j", (text, isThere) => {
    expect(hasSecret(text, "AUTH_TOKEN")).toBe(isThere);
  });

  test("that is made is 32 random bytes", () => {
    expect(newToken()).toMatch(/^[0-9a-f]{64}$/);
    expect(newToken()).not.toBe(newToken());
  });
});

test.each([
  [["--open", "--make-token"], /^--open and --make-token exclude each other/],
  [["--opne"], /^Unknown option '--opne'; npm run deploy -- --help lists the flags/],
  [["--secrets-file"], /--secrets-file.*npm run deploy -- --help/],
  [["--", "--name", "other"], /^--name cannot be passed on to wrangler/],
  [["--", "--env=staging"], /^--env=staging cannot be passed on to wrangler/],
])("%j is refused before anything is done", (args, message) => {
  expect(() => readDeployOptions(args)).toThrow(message);
});

test("wrangler is told the environment, the secrets, and what follows --", () => {
  const options = readDeployOptions(["--env", "staging", "--dry-run", "--", "--keep-vars"]);
  expect(secretsFileOf(options)).toBe(".secrets.staging");
  expect(wranglerArguments(options, "/x")).toEqual([
    ...["deploy", "--env=staging", "--secrets-file", "/x", "--dry-run", "--keep-vars"],
  ]);
  expect(wranglerArguments(readDeployOptions([]), undefined)).toEqual(["deploy", "--env="]);
});

test("what wrangler says about secrets is understood", () => {
  const list = '[\n  { "name": "AUTH_TOKEN", "type": "secret_text" }\n]\n';
  expect(deployedFrom({ code: 0, output: list })).toEqual({ status: "deployed", secrets: ["AUTH_TOKEN"] });
  expect(deployedFrom({ code: 0, output: "[]" })).toEqual({ status: "deployed", secrets: [] });
  const missing = "\u001b[31m✘ \u001b[0m[ERROR] This Worker does not exist on your account. [code: 10007]\n";
  expect(deployedFrom({ code: 1, output: missing })).toEqual(NONE);
  expect(deployedFrom({ code: 1, output: '[ERROR] Worker "holdfast" not found.\n' })).toEqual(NONE);
  const mute =
    "[ERROR] In a non-interactive environment, it's necessary to set a CLOUDFLARE_API_TOKEN environment variable";
  expect(deployedFrom({ code: 1, output: mute })).toEqual({ status: "unknown", reason: "not logged in" });
  const stranger =
    "\n\u001b[31m✘ \u001b[41;31m[\u001b[41;97mERROR\u001b[41;31m]\u001b[0m \u001b[1mNo way. Do this.\u001b[0m\n";
  expect(deployedFrom({ code: 1, output: stranger })).toEqual({ status: "unknown", reason: "No way" });
});

describe("after a deployment", () => {
  const report = (...targets: string[]) =>
    `${JSON.stringify({ type: "wrangler-session" })}\n${JSON.stringify({ type: "deploy", targets })}\n`;

  test("the address is the first that wrangler reports", () => {
    expect(addressIn(report("https://holdfast.ada.workers.dev"))).toBe("https://holdfast.ada.workers.dev");
    expect(addressIn(report("locks.example.com (custom domain)"))).toBe("https://locks.example.com");
    expect(addressIn(report())).toBeUndefined();
    expect(addressIn("")).toBeUndefined();
  });

  test("the address, the console and a command that works are printed, and never the token", () => {
    const folder = temporaryDir();
    const secrets = "ADMIN_TOKEN=other\nAUTH_TOKEN=s3cret\n";
    writeFileSync(join(folder, ".secrets"), secrets);
    const text = instructions("https://locks.example", "file", ".secrets", secrets);
    expect(text).toMatch(/^holdfast is deployed:\n {2}address +https:\/\/locks\.example\n/);
    expect(text).toMatch(/console +https:\/\/locks\.example\/\n/);
    expect(text).toContain("in .secrets");
    const [, command = ""] = /try it +(curl .*)/.exec(text) ?? [];
    // What the shell makes of it.
    const words = execFileSync("sh", ["-c", command.replace(/^curl /, "printf '%s\\n' ")], {
      cwd: folder,
      encoding: "utf8",
      env: { ...process.env, PATH: `${join(ROOT, "test/support/bin")}:${process.env.PATH}` },
    });
    expect(words.trim().split("\n")).toEqual([
      ...["-s", "-H", "Authorization: Bearer s3cret", "https://locks.example/v1/stats"],
    ]);
    expect(text).not.toContain("s3cret");
    const quoted = instructions("https://locks.example", "file", "mine", '{"AUTH_TOKEN":"s3cret"}');
    expect(quoted).toContain('curl -s -H "Authorization: Bearer $AUTH_TOKEN" https://locks.example/v1/stats');
  });

  test("an open service is called open, and needs no token in the command", () => {
    const text = instructions("https://locks.example", "nowhere", ".secrets");
    expect(text).toContain("curl -s https://locks.example/v1/stats\n");
    expect(text).toMatch(/token +none: anybody may use the service/);
  });
});

describe("npm run deploy", PATIENTLY, () => {
  test("--dry-run builds the service with every object, and publishes nothing", () => buildsEverything(""));

  test("without a token and without --open publishes nothing, and says what to do in one line", async () => {
    const none = join(temporaryDir(), "none");
    writeFileSync(none, "ADMIN_TOKEN=x\n");
    const refused = await deploy({}, "--dry-run", "--secrets-file", none);
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(withoutWarnings(refused.stderr)).toMatch(/^deploy: without AUTH_TOKEN[^\n]+--open[^\n]+\n$/);
    expect(await deploy({}, "--env", "nowhere")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--env nowhere is not in wrangler.toml, which has: staging"),
    });
  });
});

describe("the repository", () => {
  const config = readWranglerConfig(join(ROOT, "wrangler.toml"));
  const staging = (config.env as Record<string, Record<string, unknown>>).staging;

  test("stages with the same objects as it serves with: environments inherit no bindings", () => {
    expect(staging?.durable_objects).toEqual(config.durable_objects);
    expect(staging).not.toHaveProperty("migrations");
  });

  test("has an example of .dev.vars whose names are all settings", () => {
    const text = readFileSync(join(ROOT, ".dev.vars.example"), "utf8");
    const names = [...text.matchAll(/^(?:# ?)?([A-Z_]+)=/gm)].map(([, name]) => name ?? "");
    expect(names).toContain("AUTH_TOKEN");
    expect(names.filter((name) => !(name in VARIABLES))).toEqual([]);
  });

  test("ignores files of secrets, and not their example", () => {
    const ignored = (path: string) => {
      const lines = readFileSync(join(ROOT, ".gitignore"), "utf8").split("\n");
      const matches = (pattern: string) =>
        pattern.endsWith(".*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern;
      return lines.some(matches) && !lines.includes(`!${path}`);
    };
    for (const path of [".dev.vars", ".dev.vars.staging", ".secrets", ".secrets.staging", ".env"])
      expect([path, ignored(path)]).toEqual([path, true]);
    expect(ignored(".dev.vars.example")).toBe(false);
    expect(existsSync(join(ROOT, ".dev.vars.example"))).toBe(true);
  });
});
