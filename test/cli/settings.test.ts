import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readSettings, SETTINGS } from "../../src/cli/settings.ts";
import { VARIABLES } from "../../src/core/config/config.ts";
import { UsageFailure } from "../../src/node/listeners/failure.ts";
import { fixture, temporaryDir } from "./support.ts";

function complaint(flags: Record<string, string>, env: Record<string, string> = {}): string {
  try {
    readSettings(flags, env);
  } catch (error) {
    if (error instanceof UsageFailure) return error.message;
    throw error;
  }
  throw new Error("no complaint");
}

function fileWith(content: string): string {
  const path = join(temporaryDir(), "token");
  writeFileSync(path, content);
  return path;
}

describe("settings of serve", () => {
  test("without flags and variables everything has its default, and an open service answers to loopback names only", () => {
    expect(readSettings({}, {})).toEqual({
      host: "127.0.0.1",
      port: 6388,
      httpHost: "127.0.0.1",
      httpPort: 6389,
      godistlockPort: 10_000,
      isGodistlockOptional: true,
      relayPort: undefined,
      dataDir: ".holdfast",
      tls: undefined,
      httpMaxConnectionsPerIp: undefined,
      variables: { HTTP_ALLOWED_HOSTS: "localhost" },
      ignored: [],
    });
  });

  test("flags and variables have dflockd's names", () => {
    const names = Object.fromEntries(SETTINGS.map(({ flag, env }) => [flag, env]));
    expect(names).toMatchObject({
      "--port": "DFLOCKD_PORT",
      "--http-port": "DFLOCKD_HTTP_PORT",
      "--data-dir": "HOLDFAST_DATA_DIR",
      "--auth-token": "DFLOCKD_AUTH_TOKEN",
      "--auth-token-file": "DFLOCKD_AUTH_TOKEN_FILE",
      "--default-lease-ttl": "DFLOCKD_DEFAULT_LEASE_TTL_S",
      "--lease-sweep-interval": "DFLOCKD_LEASE_SWEEP_INTERVAL_S",
      "--gc-interval": "DFLOCKD_GC_INTERVAL_S",
      "--gc-max-idle": "DFLOCKD_GC_MAX_IDLE_S",
      "--read-timeout": "DFLOCKD_READ_TIMEOUT_S",
      "--write-timeout": "DFLOCKD_WRITE_TIMEOUT_S",
      "--max-locks": "DFLOCKD_MAX_LOCKS",
      "--max-connections-per-ip": "DFLOCKD_MAX_CONNECTIONS_PER_IP",
      "--auto-release-on-disconnect": "DFLOCKD_AUTO_RELEASE_ON_DISCONNECT",
      "--http-session-idle-timeout": "DFLOCKD_HTTP_SESSION_IDLE_S",
      "--http-max-connections-per-ip": "DFLOCKD_HTTP_MAX_CONNECTIONS_PER_IP",
      "--http-rate-limit-burst": "DFLOCKD_HTTP_RATE_LIMIT_BURST",
      "--http-cors-allowed-origins": "DFLOCKD_HTTP_CORS_ALLOWED_ORIGINS",
      "--http-allowed-hosts": "DFLOCKD_HTTP_ALLOWED_HOSTS",
      "--tls-cert": "DFLOCKD_TLS_CERT",
      "--admin-token": "DFLOCKD_ADMIN_TOKEN",
      "--admin-token-file": "DFLOCKD_ADMIN_TOKEN_FILE",
      "--ticket-secret": "DFLOCKD_TICKET_SECRET",
      "--ticket-secret-file": "DFLOCKD_TICKET_SECRET_FILE",
      "--godistlock-port": "DFLOCKD_GODISTLOCK_PORT",
      "--server-id": "DFLOCKD_SERVER_ID",
      "--relay-id": "DFLOCKD_RELAY_ID",
      "--relay-peers": "DFLOCKD_RELAY_PEERS",
      "--relay-token": "DFLOCKD_RELAY_TOKEN",
      "--relay-token-file": "DFLOCKD_RELAY_TOKEN_FILE",
      "--relay-port": "DFLOCKD_RELAY_PORT",
    });
  });

  test("the port for relays is open in a group only, and each of the additional ports may be off", () => {
    const group = { "--relay-id": "s0", "--relay-peers": "s1=tcp://127.0.0.1:1", "--relay-token": "x".repeat(16) };
    expect(readSettings(group, {}).relayPort).toBe(20_000);
    expect(readSettings({ ...group, "--relay-port": "0" }, {}).relayPort).toBeUndefined();
    expect(readSettings({ "--godistlock-port": "0" }, {}).godistlockPort).toBeUndefined();
    expect(complaint({ "--relay-peers": "s1=tcp://127.0.0.1:1" })).toBe("--relay-id must be set if RELAY_PEERS is");
    expect(complaint({ "--relay-port": "65536" })).toBe("--relay-port must be a whole number from 1 to 65535, or 0");
  });

  test("the port for relays is open without a group if it was asked for", () => {
    expect(readSettings({ "--relay-port": "3" }, {}).relayPort).toBe(3);
    expect(readSettings({}, { DFLOCKD_RELAY_PORT: "3" }).relayPort).toBe(3);
    expect(readSettings({ "--relay-port": "0" }, {}).relayPort).toBeUndefined();
  });

  test("the cap on HTTP connections of an address is a whole number", () => {
    const read = (text: string) => readSettings({ "--http-max-connections-per-ip": text }, {}).httpMaxConnectionsPerIp;
    expect([read("0"), read("25")]).toEqual([0, 25]);
    for (const text of ["-1", "1.5", "many", "9007199254740992"]) {
      expect(() => read(text)).toThrow(
        "--http-max-connections-per-ip must be a whole number from 0 to 9007199254740991",
      );
    }
  });

  test("every variable of the Worker has a flag", () => {
    const settable = new Set<string>(SETTINGS.map(({ name }) => name));
    expect(Object.keys(VARIABLES).filter((name) => !settable.has(name))).toEqual([]);
  });

  test("a place is refused: a self-hosted server has only one", () => {
    const rule = "works on Cloudflare only: here everything is in the data directory";
    expect(complaint({ "--jurisdiction": "eu" })).toBe(`--jurisdiction ${rule}`);
    expect(() => readSettings({}, { DFLOCKD_LOCATION_HINTS: "eu/=weur" })).toThrow(`DFLOCKD_LOCATION_HINTS ${rule}`);
  });

  test("a flag beats the variable", () => {
    const settings = readSettings(
      { "--port": "7001", "--max-locks": "3" },
      { DFLOCKD_PORT: "7002", DFLOCKD_MAX_LOCKS: "4", DFLOCKD_MAX_WAITERS: "5", DFLOCKD_HTTP_HOST: "::1" },
    );
    expect(settings).toMatchObject({ port: 7001, httpHost: "::1", variables: { MAX_LOCKS: "3", MAX_WAITERS: "5" } });
  });

  test("HTTP listens where TCP does unless told otherwise", () => {
    expect(readSettings({ "--host": "0.0.0.0" }, {}).httpHost).toBe("0.0.0.0");
  });

  test.each([
    [{ "--http-session-idle-timeout": "7" }, {}],
    [{ "--http-session-idle": "7" }, {}],
    [{}, { DFLOCKD_HTTP_SESSION_IDLE_S: "7" }],
    [{}, { DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT_S: "7" }],
    [{ "--http-session-idle": "7" }, { DFLOCKD_HTTP_SESSION_IDLE_S: "8" }],
    [{ "--http-session-idle-timeout": "7" }, { DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT_S: "8" }],
  ])("the idle time of HTTP sessions has two names: %j %j", (flags: Record<string, string>, env) => {
    expect(readSettings(flags, env).variables).toMatchObject({ HTTP_SESSION_IDLE_S: "7" });
  });

  test("two names of one setting exclude each other, as flags and as variables", () => {
    expect(complaint({ "--http-session-idle-timeout": "7", "--http-session-idle": "7" })).toBe(
      "--http-session-idle-timeout and --http-session-idle are one setting: give one of them",
    );
    expect(complaint({}, { DFLOCKD_HTTP_SESSION_IDLE_S: "7", DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT_S: "8" })).toBe(
      "DFLOCKD_HTTP_SESSION_IDLE_S and DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT_S are one setting: give one of them",
    );
  });

  test("a service with a token answers to every name unless told otherwise, an open one to the names it is told", () => {
    expect(readSettings({ "--auth-token": "t" }, {}).variables).toEqual({ AUTH_TOKEN: "t" });
    expect(readSettings({ "--auth-token-file": fileWith("t") }, {}).variables).toEqual({ AUTH_TOKEN: "t" });
    expect(readSettings({ "--admin-token": "t" }, {}).variables).toMatchObject({ HTTP_ALLOWED_HOSTS: "localhost" });
    expect(readSettings({}, { DFLOCKD_HTTP_ALLOWED_HOSTS: "locks.lan" }).variables).toEqual({
      HTTP_ALLOWED_HOSTS: "locks.lan",
    });
    expect(readSettings({ "--http-allowed-hosts": "*", "--auth-token": "t" }, {}).variables).toEqual({
      AUTH_TOKEN: "t",
      HTTP_ALLOWED_HOSTS: "*",
    });
  });

  test("an empty variable counts as unset", () => {
    const env = Object.fromEntries(SETTINGS.map(({ env }) => [env, ""]));
    expect(readSettings({}, env)).toEqual(readSettings({}, {}));
  });

  test("settings without counterpart are accepted and named", () => {
    const { ignored } = readSettings({ "--shutdown-timeout": "30" }, { DFLOCKD_FENCE_STATE_FILE: "/x" });
    expect(ignored).toEqual(["--shutdown-timeout", "DFLOCKD_FENCE_STATE_FILE"]);
  });

  test.each([
    [{ "--port": "65536" }, "--port must be a whole number from 1 to 65535, or 0 for any free port"],
    [{ "--http-port": "1e3" }, "--http-port must be a whole number from 1 to 65535, or 0 for any free port"],
    [{ "--port": "6389" }, "--port and --http-port must differ"],
    [{ "--host": "127.0.0.1:80" }, "--host must be a host name, an IP address or *"],
    [{ "--host": "1.2.3" }, "--host must be a host name, an IP address or *"],
    [{ "--host": "" }, "--host is empty"],
    [{ "--read-timeout": "0" }, "--read-timeout must be a whole number from 1 to 9223372036"],
    [{ "--read-timeout": "1.5" }, "--read-timeout must be a whole number from 1 to 9223372036"],
    [{ "--write-timeout": "9223372037" }, "--write-timeout must be a whole number from 0 to 9223372036"],
    [{ "--default-lease-ttl": "33s" }, "--default-lease-ttl must be a whole number from 1 to 9223372036"],
    [{ "--max-locks": "-1" }, "--max-locks must be a whole number from 0 to 9007199254740991"],
    [{ "--max-waiters": "" }, "--max-waiters is empty"],
    [{ "--http-rate-limit-per-ip": "1000001" }, "--http-rate-limit-per-ip must be a whole number from 0 to 1000000"],
    [{ "--fence-floor": "9223372036854775808" }, "--fence-floor must be a whole number from 0 to 9223372036854775807"],
    [{ "--http-session-idle": "x" }, "--http-session-idle must be a whole number from 0 to 9223372036"],
    [{ "--http-allowed-hosts": "" }, "--http-allowed-hosts is empty"],
    [
      { "--http-allowed-hosts": "http://locks.lan" },
      "--http-allowed-hosts must be * or a comma list of host names such as locks.example, without scheme and port",
    ],
    [{ "--draining": "maybe" }, "--draining must be one of 1, yes, true, 0, no, false"],
    [{ "--data-dir": " " }, "--data-dir is empty"],
    [{ "--auth-token": "" }, "--auth-token is empty"],
    [{ "--auth-token": " \t" }, "--auth-token is empty"],
    [{ "--auth-token": "a\nb" }, "--auth-token must be 1 to 65536 bytes, not blank, without line breaks"],
    [
      { "--bridge-secret": "x".repeat(65_537) },
      "--bridge-secret must be 1 to 65536 bytes, not blank, without line breaks",
    ],
    [
      { "--ticket-secret": "x".repeat(31) },
      "--ticket-secret must be 32 to 65536 bytes, not blank, without line breaks",
    ],
    [{ "--admin-token": " " }, "--admin-token is empty"],
    [{ "--admin-token": "a", "--admin-token-file": "b" }, "--admin-token and --admin-token-file exclude each other"],
    [
      { "--ticket-secret": "a", "--ticket-secret-file": "b" },
      "--ticket-secret and --ticket-secret-file exclude each other",
    ],
    [{ "--ticket-secret-file": "/nope" }, "--ticket-secret-file: cannot read /nope: no such file or directory"],
    [{ "--auth-token": "a", "--auth-token-file": "b" }, "--auth-token and --auth-token-file exclude each other"],
    [{ "--auth-token-file": "/nope" }, "--auth-token-file: cannot read /nope: no such file or directory"],
    [{ "--tls-cert": "/nope" }, "--tls-cert needs --tls-key as well"],
    [{ "--tls-key": "/nope" }, "--tls-key needs --tls-cert as well"],
    [{ "--tls-cert": "/nope", "--tls-key": "/nope" }, "--tls-cert: cannot read /nope: no such file or directory"],
  ])("%j is refused", (flags, message) => {
    expect(complaint(flags)).toBe(message);
  });

  test.each([
    ["DFLOCKD_PORT", "x", "must be a whole number from 1 to 65535, or 0 for any free port"],
    ["DFLOCKD_READ_TIMEOUT_S", "0", "must be a whole number from 1 to 9223372036"],
    ["DFLOCKD_AUTO_RELEASE_ON_DISCONNECT", "maybe", "must be one of 1, yes, true, 0, no, false"],
    ["DFLOCKD_AUTH_TOKEN", "   ", "must be 1 to 65536 bytes, not blank, without line breaks"],
  ])("%s=%j is refused by its name", (name, value, rule) => {
    expect(complaint({}, { [name]: value })).toBe(`${name} ${rule}`);
  });

  describe.each(["AUTH_TOKEN", "ADMIN_TOKEN", "TICKET_SECRET"])("the file of %s", (name) => {
    const flag = `--${name.toLowerCase().replace("_", "-")}-file`;
    const secret = "s3cret".padEnd(32, "x");

    test("is used without its line end", () => {
      expect(readSettings({ [flag]: fileWith(`${secret}\n`) }, {}).variables[name]).toBe(secret);
    });

    test.each(["", "\n", " \r\n\t "])("never counts as no secret: %j", (content) => {
      const path = fileWith(content);
      expect(complaint({}, { [`DFLOCKD_${name}_FILE`]: path })).toBe(`DFLOCKD_${name}_FILE: ${path} is empty`);
    });

    test("is refused with several lines, without showing them", () => {
      expect(complaint({ [flag]: fileWith(`${secret}\nmore`) })).toMatch(
        new RegExp(`^${flag} must be [0-9]+ to 65536 bytes, not blank, without line breaks$`),
      );
    });
  });

  test("certificate and key must be what they claim, and belong together", () => {
    const [cert, key, other] = [fixture("cert.pem"), fixture("key.pem"), fixture("other-key.pem")];
    expect(readSettings({ "--tls-cert": cert, "--tls-key": key }, {}).tls).toMatchObject({
      certPath: cert,
      keyPath: key,
    });
    expect(complaint({ "--tls-cert": key, "--tls-key": key })).toBe(`--tls-cert: ${key} is not a PEM certificate`);
    expect(complaint({ "--tls-cert": cert, "--tls-key": cert })).toBe(
      `--tls-key: ${cert} is not an unencrypted PEM private key`,
    );
    expect(complaint({ "--tls-cert": cert, "--tls-key": other })).toBe(`--tls-key: ${other} is not the key of ${cert}`);
  });
});
