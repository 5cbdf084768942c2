import { spawn } from "node:child_process";
import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { readWranglerConfig, variablesInFiles } from "../../scripts/dev-config.ts";
import { freePorts } from "../../scripts/dev-ports.ts";
import { type DevPort, readDevSettings } from "../../scripts/dev-settings.ts";
import { eventually, freePort, isRunning, processes, TcpClient, temporaryDir } from "./support.ts";

const OPEN = { HTTP_ALLOWED_HOSTS: "localhost" };
const TOKEN = "0123456789abcdef0123";

const portsOf = (...given: Parameters<typeof readDevSettings>) =>
  Object.fromEntries(readDevSettings(...given).ports.map(({ name, port }) => [name, port]));

function failureOf(...given: Parameters<typeof readDevSettings>): unknown {
  try {
    readDevSettings(...given);
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("the settings of npm run dev", () => {
  test("are those of holdfast serve: flags over the environment over files", () => {
    const files = { MAX_WAITERS: "1", MAX_LOCKS: "1", MAX_CONNECTIONS: "1", GC_INTERVAL_S: "1" };
    const env = { MAX_WAITERS: "2", DFLOCKD_MAX_LOCKS: "3", MAX_LOCKS: "2", DFLOCKD_MAX_CONNECTIONS: "3" };
    const { variables, warnings } = readDevSettings({ "--max-waiters": "4" }, env, files);
    expect(variables).toEqual({
      MAX_WAITERS: "4",
      MAX_LOCKS: "3",
      MAX_CONNECTIONS: "3",
      GC_INTERVAL_S: "1",
      ...OPEN,
    });
    expect(warnings).toEqual([]);
  });

  test("have the ports and the place of wrangler dev unless told otherwise", () => {
    expect(portsOf({}, {})).toEqual({ tcp: 6388, http: 6389, godistlock: 10_000 });
    expect(readDevSettings({}, {}).dataDir).toBe(".wrangler/state");
    const moved = { "--port": "1", "--http-port": "2", "--godistlock-port": "0", "--data-dir": "here" };
    expect(portsOf(moved, { DFLOCKD_PORT: "9", PORT: "8" })).toEqual({ tcp: 1, http: 2 });
    expect(readDevSettings(moved, { HOLDFAST_DATA_DIR: "there" }).dataDir).toBe("here");
  });

  test("open a port for relays where there is a group, wherever it is listed", () => {
    const group = { RELAY_PEERS: "s1=tcp://127.0.0.1:1", RELAY_ID: "s0", RELAY_TOKEN: TOKEN };
    expect(portsOf({}, {}, group).relay).toBe(20_000);
    expect(portsOf({ "--relay-port": "3" }, group).relay).toBe(3);
  });

  test.each(["AUTH_TOKEN", "HTTP_ALLOWED_HOSTS"])("leave other host names to the user who sets %s", (name) => {
    expect(readDevSettings({}, {}).variables).toEqual(OPEN);
    for (const [env, files] of [
      [{ [`DFLOCKD_${name}`]: "x" }, {}],
      [{ [name]: "x" }, {}],
      [{}, { [name]: "x" }],
    ] as const)
      expect(readDevSettings({}, env, files).variables).toEqual({ [name]: "x" });
  });

  test("let a file on the command line replace a secret in .dev.vars", () => {
    const file = join(temporaryDir(), "token");
    writeFileSync(file, "typed\n");
    expect(readDevSettings({ "--auth-token-file": file }, {}, { AUTH_TOKEN: "stored" }).variables).toEqual({
      AUTH_TOKEN: "typed",
    });
  });

  test("pass on variables that are no settings, and ignore common names in the environment", () => {
    const files = { MINE: "x", LOCATION_HINTS: "eu/=weur" };
    expect(readDevSettings({}, { DEBUG: "app:*", PORT: "8" }, files).variables).toEqual({ ...files, ...OPEN });
  });

  test.each<[string, Parameters<typeof readDevSettings>, string]>([
    [
      "a flag",
      [{ "--port": "x" }, {}],
      '--port must be a whole number from 1 to 65535, or 0 for any free port, not "x"',
    ],
    ["a variable", [{}, { MAX_LOCKS: "-1" }], 'MAX_LOCKS must be a whole number from 0 to 9007199254740991, not "-1"'],
    [
      "a line of a file",
      [{}, {}, { DRAINING: "maybe" }],
      'DRAINING in .dev.vars, .env or wrangler.toml must be one of 1, yes, true, 0, no, false, not "maybe"',
    ],
    [
      "a secret, without its value",
      [{ "--ticket-secret": "short" }, {}],
      "--ticket-secret must be 32 to 65536 bytes, not blank, without line breaks",
    ],
  ])("refuse %s that breaks its rule", (_, given, message) => {
    expect(failureOf(...given)).toMatchObject({ message, exitCode: 2 });
  });

  test("are looked for in .dev.vars and wrangler.toml as wrangler does", () => {
    const folder = temporaryDir();
    const path = join(folder, "wrangler.toml");
    writeFileSync(path, '[vars]\nMAX_LOCKS = 3\nMAX_WAITERS = "4"\n');
    writeFileSync(join(folder, ".dev.vars"), "# DEBUG=1\nexport MAX_WAITERS=5\nAUTH_TOKEN='a \"b\" $c'\n");
    expect(variablesInFiles(path, readWranglerConfig(path))).toEqual({
      MAX_LOCKS: "3",
      MAX_WAITERS: "5",
      AUTH_TOKEN: 'a "b" $c',
    });
  });
});

test("a taken port is an error, unless it is a default the user did not choose", async () => {
  const [taken, free] = [await freePort(), await freePort()];
  const server = createServer().listen(taken, "127.0.0.1");
  onTestFinished(() => void server.close());
  const port = (isOptional: boolean, number = taken): DevPort => {
    return { name: "godistlock", host: "127.0.0.1", port: number, flag: "--godistlock-port", isOptional };
  };
  const said: string[] = [];
  const inUse = `port ${taken} on 127.0.0.1 is already in use`;
  expect(await freePorts([port(true), port(false, free)], (line) => said.push(line))).toEqual([port(false, free)]);
  expect(said).toEqual([`${inUse}: going on without godistlock; choose another with --godistlock-port`]);
  await expect(freePorts([port(false)], () => {})).rejects.toMatchObject({
    message: `${inUse}: choose another with --godistlock-port`,
    exitCode: 1,
  });
  const isOptionalNow = (flags: Record<string, string>) =>
    readDevSettings(flags, {}).ports.map(({ name, isOptional }) => [name, isOptional]);
  expect(isOptionalNow({})).toEqual([
    ["tcp", false],
    ["http", false],
    ["godistlock", true],
  ]);
  expect(isOptionalNow({ "--godistlock-port": "10000" })).toContainEqual(["godistlock", false]);
});

test("npm run dev serves every protocol on the ports it is given, and leaves no process behind", {
  timeout: 300_000,
}, async () => {
  const [port, http, godistlock] = [await freePort(), await freePort(), await freePort()];
  const ports = ["--port", `${port}`, "--http-port", `${http}`, "--godistlock-port", `${godistlock}`];
  const env = { ...process.env, DFLOCKD_AUTH_TOKEN: TOKEN, DEFAULT_LEASE_TTL_S: "44" };
  const dev = spawn("npm", ["run", "dev", "--", ...ports, "--data-dir", temporaryDir()], {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env,
    // A group of its own, which gets Ctrl-C as a terminal would send it.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const group = dev.pid ?? 0;
  onTestFinished(() => {
    if (isRunning(group)) process.kill(-group, "SIGKILL");
  });
  const exited = new Promise((resolve) => dev.once("exit", resolve));
  let output = "";
  for (const stream of [dev.stdout, dev.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  await eventually("its banner", () => /^ {2}data /m.test(output) || dev.exitCode !== null, 120_000);
  expect(output).toMatch(
    new RegExp(
      `ready under wrangler dev:\\n  tcp +127.0.0.1:${port}\\n  http, console +http://127.0.0.1:${http}/\\n` +
        `  websocket +ws://127.0.0.1:${http}/v1/ws\\n  godistlock +127.0.0.1:${godistlock}\\n  data `,
    ),
  );
  expect(output).not.toContain(TOKEN);

  const holder = await TcpClient.open(port);
  holder.socket.write(`auth\n_\n${TOKEN}\nl\ndeploy\n5\n`);
  await eventually("a lock over TCP", () => /^ok\nok \S+ 44\n$/.test(holder.text));
  const other = await TcpClient.open(godistlock);
  other.socket.write(`AUTH ${TOKEN} a\nTRY deploy 1000 b\n`);
  await eventually("its holder's fence over godistlock", () => /^HELLO a .*\nLOCK b [0-9]+\n$/.test(other.text));
  const stats = (headers: Record<string, string>) => fetch(`http://127.0.0.1:${http}/v1/stats`, { headers });
  expect((await stats({})).status).toBe(401);
  expect(await (await stats({ Authorization: `Bearer ${TOKEN}` })).json()).toMatchObject({
    locks: [{ key: "deploy" }],
  });

  // A change anywhere in `src` is enough, and none of the content is needed to see it.
  // wrangler may lose a change that comes while it builds for the one before (4.158), so each waits for the end of that.
  const hasReloaded = (said: string) => /\[custom build\][\s\S]*updated and ready/.test(said);
  for (const path of ["src/core/hash.ts", "src/cloudflare/index.ts", "src/console/main.tsx"]) {
    const before = output.length;
    const file = fileURLToPath(new URL(`../../${path}`, import.meta.url));
    utimesSync(file, new Date(), new Date());
    await eventually(`a reload for ${path}`, () => hasReloaded(output.slice(before)), 60_000);
  }

  const started = [...processes()].filter(({ pid }) => groupOf(pid) === group);
  expect(started.length).toBeGreaterThan(3);
  const config = started
    .map(({ args }) => args[args.indexOf("--config") + 1] ?? "")
    .find((path) => path.includes("holdfast-dev-"));
  expect(existsSync(config ?? "")).toBe(true);
  process.kill(-group, "SIGINT");
  expect(await exited).toBe(0);
  await eventually("all its processes to end", () => !started.some(({ pid }) => isRunning(pid)));
  expect(existsSync(config ?? "")).toBe(false);
});

/** The process group, or undefined if the process has ended. */
function groupOf(pid: number): number | undefined {
  try {
    return Number(/^\d+ \(.*\) \S \d+ (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, "utf8"))?.[1]);
  } catch {
    return undefined;
  }
}
