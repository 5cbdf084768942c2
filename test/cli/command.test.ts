import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { outcome } from "./support.ts";

const ONE_LINE = /^holdfast: [^\n]+\n$/;

describe("the command line", () => {
  test("--version prints the version of the package", async () => {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
    expect(await outcome(["--version"])).toEqual({
      code: 0,
      signal: null,
      stdout: `holdfast ${version}\n`,
      stderr: "",
    });
  });

  test.each(["version", "-v", "-V"])("%s is the same as --version", async (word) => {
    expect(await outcome([word])).toEqual(await outcome(["--version"]));
  });

  test("help is the same as --help, of holdfast and of each command", async () => {
    expect(await outcome(["help"])).toEqual(await outcome(["--help"]));
    for (const words of [["run"], ["serve"], ["file"], ["file", "try"]])
      expect(await outcome(["help", ...words]), words.join(" ")).toEqual(await outcome([...words, "--help"]));
  });

  test("--help lists the commands, and each command its flags with their variables", async () => {
    const help = await outcome(["--help"]);
    expect(help).toMatchObject({ code: 0, stderr: "" });
    expect(help.stdout).toMatch(/serve[\s\S]*bridge/);
    const serve = await outcome(["serve", "--help"]);
    expect(serve.stdout).toMatch(/--default-lease-ttl VALUE [^-]*default:\s+33\)\s+\[DFLOCKD_DEFAULT_LEASE_TTL_S\]/);
    expect(serve.stdout).not.toContain("--shutdown-timeout");
    expect((await outcome(["bridge", "--help"])).stdout).toContain("--proxy-protocol");
  });

  test.each([
    [[], "no command given; see holdfast --help"],
    [["fly"], "unknown command fly; see holdfast --help"],
    [["--fly"], "unknown flag --fly; see holdfast --help"],
    [["serv"], "unknown command serv (did you mean serve?); see holdfast --help"],
    [["lcok", "deploy"], "unknown command lcok (did you mean lock?); see holdfast --help"],
    [["help", "rnu"], "unknown command rnu (did you mean run?); see holdfast --help"],
    [["--hlep"], "unknown flag --hlep (did you mean --help?); see holdfast --help"],
    [["serve", "--prot", "1"], "unknown flag --prot (did you mean --port?); see holdfast serve --help"],
    [["serve", "--fly", "1"], "unknown flag --fly; see holdfast serve --help"],
    [["serve", "now"], "too many arguments, 1 instead of 0; see holdfast serve --help"],
    [["serve", "--port"], "--port needs a value; see holdfast serve --help"],
    [["serve", "--port", "abc"], "--port must be a whole number from 1 to 65535, or 0 for any free port"],
    [["serve", "--max-locks", "-1"], "--max-locks must be a whole number from 0 to 9007199254740991"],
    [
      ["serve", "--auto-release-on-disconnect=perhaps"],
      "--auto-release-on-disconnect must be one of 1, yes, true, 0, no, false",
    ],
    [["serve", "--auth-token", ""], "--auth-token is empty"],
    [["bridge"], "--listen is missing, for example --listen 127.0.0.1:6388"],
    [["bridge", "--listen", ":1"], "--to is missing, for example --to wss://locks.example.com/v1/ws"],
    [["bridge", "--listen", "6388", "--to", "ws://x/"], "--listen must look like 127.0.0.1:6388"],
    [
      ["bridge", "--listen", ":1", "--to", "https://x/"],
      "--to must be a ws:// or wss:// address without user name or #fragment",
    ],
    [
      ["bridge", "--listen", ":1", "--to", "ws://x", "--write-timeout", "x"],
      "--write-timeout must be a whole number from 0 to 9223372036",
    ],
    [
      ["bridge", "--listen", ":1", "--to", "ws://x", "--bridge-secret", " "],
      "--bridge-secret must be 1 to 65536 bytes, not blank, without line breaks",
    ],
    [["bridge", "--listen", ":1", "--to", "ws://x", "--tls-key", "k"], "--tls-key needs --tls-cert as well"],
  ])("%j is one line and exit code 2", async (args, message) => {
    expect(await outcome(args)).toEqual({ code: 2, signal: null, stdout: "", stderr: `holdfast: ${message}\n` });
  });

  test("a secret never shows in a complaint", async () => {
    for (const args of [
      ["serve", "--auth-tokn=hunter2"],
      ["serve", "--auth-token", "hunter2\nhunter2"],
      ["serve", "--auth-token", "hunter2", "--auth-token-file", "x"],
      ["bridge", "--listen", ":1", "--to", "ws://x", "--bridge-secret", "hunter2\u{1F512}"],
    ]) {
      const { code, stdout, stderr } = await outcome(args);
      expect(code).toBe(2);
      expect(stderr).toMatch(ONE_LINE);
      expect(stdout + stderr).not.toContain("hunter2");
    }
  });
});
