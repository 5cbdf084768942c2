/** Servers that are not there, do not let us in, take no work or talk nonsense: one line that says which, and a code of its own. */
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer, type TestServer } from "../../support/server.ts";
import { finish, urlOf } from "../processes.ts";
import { fixture, freePort, startServe } from "../support.ts";

const ID = "0".repeat(32);
/** Every command that talks to a server. Those in the second list ask for something new. */
const EVERY = [
  ["run", "--key", "k", "--", "true"],
  ["lock", "k"],
  ["release", "k", ID],
  ["renew", "k", ID],
  ["enqueue", "k"],
  ["ls"],
  ["top"],
  ["stats"],
  ["ping"],
  ["ticket", "k"],
];
const CLAIMS = [["run", "--key", "k", "--", "true"], ["lock", "k"], ["enqueue", "k"], ["ping"]];

/** Each command fails in the same way, with one line. */
async function expectAll(commands: string[][], url: string, code: number, line: RegExp): Promise<void> {
  const ends = await Promise.all(commands.map((args) => finish(args, { HOLDFAST_URL: url })));
  for (const [index, { stderr, ...end }] of ends.entries()) {
    expect({ args: commands[index], ...end }).toEqual({ args: commands[index], code, stdout: "" });
    expect(stderr).toMatch(line);
    expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
  }
}

describe("a server that", () => {
  let locked: TestServer;
  beforeAll(async () => {
    locked = await startServer({ variables: { AUTH_TOKEN: "open-sesame", DRAINING: "true" } });
  });
  afterAll(() => locked.stop());

  it("is not there: 69", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    await expectAll(
      EVERY,
      url,
      69,
      /no server at http:\/\/127\.0\.0\.1:[0-9]+ \(connection refused\): start one with `holdfast serve`/,
    );
  });

  it("is not there under a name with several addresses: 69", async () => {
    const url = `http://localhost:${await freePort()}`;
    await expectAll([["run", "--key", "k", "--", "true"], ["ls"]], url, 69, /\(connection refused\)/);
  });

  it("has no such name: 69", async () => {
    await expectAll(
      [["ls"], ["run", "--key", "k", "--", "true"]],
      "http://nowhere.invalid:1",
      69,
      /\((no such host|the host name cannot be looked up)\)/,
    );
  });

  it("wants a token: 77", async () => {
    // It tells everybody that it is draining.
    const commands = EVERY.filter(([name]) => name !== "ping");
    await expectAll(
      commands,
      urlOf(locked),
      77,
      /wants a token: give it with --token-file, --token or HOLDFAST_TOKEN$/m,
    );
    const wrong = await finish(["run", "--key", "k", "--token", "wrong", "--", "true"], {
      HOLDFAST_URL: urlOf(locked),
    });
    expect(wrong).toMatchObject({ code: 77, stderr: expect.stringContaining("refused the token") });
  });

  it("has a certificate that is not trusted: 69, until it is named as trusted", async () => {
    const server = await startServe({ args: ["--tls-cert", fixture("cert.pem"), "--tls-key", fixture("key.pem")] });
    const url = `https://localhost:${server.httpPort}`;
    const commands = [["run", "--key", "k", "--", "true"], ["ls"], ["release", "k", ID]];
    await expectAll(commands, url, 69, /certificate is self-signed: name its authority in NODE_EXTRA_CA_CERTS/);
    const env = { HOLDFAST_URL: url, NODE_EXTRA_CA_CERTS: fixture("cert.pem") };
    for (const args of commands.slice(0, 2)) {
      expect(await finish(args, env)).toEqual({ code: 0, stdout: "", stderr: "" });
    }
  });

  it("drains: 73", async () => {
    const commands = CLAIMS.map(([name = "", ...rest]) => [name, "--token", "open-sesame", ...rest]);
    await expectAll(commands, urlOf(locked), 73, /is draining and takes no new work: try again later$/m);
    // What is held can still be renewed and released: the answer is about the token.
    const args = ["k", ID, "--token", "open-sesame"];
    for (const name of ["renew", "release"]) {
      expect(await finish([name, ...args], { HOLDFAST_URL: urlOf(locked) })).toMatchObject({ code: 76 });
    }
  });
});

describe("something that is no holdfast server", () => {
  const servers: Server[] = [];
  const listening = (server: Server) =>
    new Promise<string>((resolve) => {
      servers.push(server);
      server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
    });
  afterAll(() => {
    for (const server of servers) server.close();
  });

  it("but serves web pages: 70", async () => {
    const url = await listening(
      createHttpServer((_, response) => response.setHeader("Content-Type", "text/html").end("<h1>It works!</h1>")),
    );
    await expectAll(EVERY, url, 70, /does not answer like a holdfast server \(HTTP 200\): check --url$/m);
  });

  it("but speaks another protocol: 70", async () => {
    const url = await listening(
      createServer((socket) => socket.on("error", () => {}).end("220 mail.example ESMTP\r\n")),
    );
    await expectAll(EVERY, url, 70, /does not answer like a holdfast server \(no HTTP\): check --url$/m);
  });

  it("but hangs up: 69", async () => {
    const url = await listening(createServer((socket) => socket.on("error", () => {}).destroy()));
    await expectAll(EVERY, url, 69, /\(the connection was cut\)/);
  });

  it.each([
    [421, "host_forbidden", 77, /does not answer to the name in http:.*--http-allowed-hosts$/m],
    [429, "rate_limited", 73, /too many requests/],
    [
      503,
      "max_connections",
      73,
      /is full \((max_connections|it takes no more connections, or is starting)\): try again later$/m,
    ],
  ])("but something before it that answers %d %s", async (status, error, code, line) => {
    const answer = JSON.stringify({ error });
    const url = await listening(createHttpServer((_, response) => response.writeHead(status).end(answer)));
    await expectAll(EVERY, url, code, line);
  });

  it("but one that is misconfigured: 69, and the variable is named", async () => {
    const answer = JSON.stringify({ error: "misconfigured", detail: "invalid configuration variable MAX_LOCKS" });
    const url = await listening(createHttpServer((_, response) => response.writeHead(500).end(answer)));
    await expectAll(EVERY, url, 69, /is misconfigured \(invalid configuration variable MAX_LOCKS\)/);
  });

  it("--json puts the complaint on standard output, and nothing elsewhere", async () => {
    const url = `http://127.0.0.1:${await freePort()}`;
    const { code, stdout, stderr } = await finish(["ls", "--json"], { HOLDFAST_URL: url });
    expect({ code, stderr }).toEqual({ code: 69, stderr: "" });
    expect(JSON.parse(stdout)).toEqual({ ok: false, error: "unreachable", message: expect.stringContaining(url) });
  });
});

describe("command lines that make no sense", () => {
  it.each([
    [["lock"], "KEY is missing"],
    [["lock", "a", "b"], "too many arguments"],
    [["lock", "a b"], "KEY must be 1 to 256 bytes"],
    [["lock", "k", "--label", ""], "--label must be 1 to 64 printable characters"],
    [["release"], "KEY and TOKEN are missing, or --session"],
    [["release", "k"], "TOKEN is missing"],
    [["release", "k", "short"], "TOKEN must be 32 hex digits"],
    [["enqueue", ".."], "the keys . and .. cannot be named here"],
    [["renew", "k", ID, "--lease", "x"], "--lease must be seconds"],
    [["enqueue", "k", "--limit", "1048577"], "--limit must be a whole number from 1 to 1048576"],
    [["wait", "k"], "--session is missing: enqueue prints it"],
    [["wait", "k", "--session", "x"], "--session must be 32 hex digits"],
    [["ls", "--detail"], "unknown flag --detail"],
    [["ls", "--json=yes"], "--json takes no value"],
    [["ls", "--url", "nowhere"], "--url must be an http or https address"],
    [["ls", "--token", "a", "--token-file", "b"], "--token and --token-file exclude each other"],
    [["ticket"], "KEY… is missing"],
    [["ticket", "k", "--operations", "fly"], "--operations must be some of lock, semaphore, stats"],
    [["ticket", "k", "--ttl", "86401"], "--ttl must be a whole number from 1 to 86400"],
    [["completion", "csh"], "SHELL must be bash, zsh, fish"],
  ])("%j: exit code 2 and the usage", async (args, message) => {
    const { code, stdout, stderr } = await finish(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]+\nusage: holdfast [^\n]+\n$/);
    expect(stderr).toContain(message);
  });

  it("--json puts it into one line on standard output", async () => {
    const { code, stdout, stderr } = await finish(["ls", "--nope", "--json"]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: "" });
    expect(stdout).toBe('{"ok":false,"error":"usage","message":"unknown flag --nope"}\n');
  });
});
