import { describe, expect, test } from "vitest";
import { misnamedVariables } from "../../src/cli/misnamed.ts";
import { SETTINGS } from "../../src/cli/settings.ts";
import { startServe } from "./support.ts";

const warnings = (env: Record<string, string>, flags: Record<string, string> = {}) =>
  misnamedVariables(SETTINGS, flags, env);

describe("an environment variable that is meant for us and not read", () => {
  test.each([
    ["AUTH_TOKEN", "DFLOCKD_AUTH_TOKEN"],
    ["HOLDFAST_AUTH_TOKEN", "DFLOCKD_AUTH_TOKEN"],
    ["AUTH_TOKEN_FILE", "DFLOCKD_AUTH_TOKEN_FILE"],
    ["HTTP_PORT", "DFLOCKD_HTTP_PORT"],
    ["HOLDFAST_PORT", "DFLOCKD_PORT"],
    ["HOLDFAST_DEBUG", "DFLOCKD_DEBUG"],
    ["DFLOCKD_DATA_DIR", "HOLDFAST_DATA_DIR"],
    ["MAX_LOCKS", "DFLOCKD_MAX_LOCKS"],
    ["HTTP_SESSION_IDLE_S", "DFLOCKD_HTTP_SESSION_IDLE_S"],
    ["HOLDFAST_HTTP_SESSION_IDLE_TIMEOUT_S", "DFLOCKD_HTTP_SESSION_IDLE_S"],
    ["DFLOCKD_HTTP_SESSION_IDLE_TIMEOUT", "DFLOCKD_HTTP_SESSION_IDLE_S"],
    ["DFLOCKD_READ_TIMEOUT", "DFLOCKD_READ_TIMEOUT_S"],
  ])("%s is told that its setting is called %s, without the value", (name, right) => {
    expect(warnings({ [name]: "hunter2" })).toEqual([
      `the environment variable ${name} is not read: the setting is called ${right}`,
    ]);
  });

  test.each(["HOST", "PORT", "DEBUG", "DATA_DIR", "GITHUB_AUTH_TOKEN", "READ_TIMEOUT", "auth_token"])(
    "is not suspected of %s, which other programs use",
    (name) => expect(warnings({ [name]: "x" })).toEqual([]),
  );

  test("is no matter when the setting is given by its right name, or the variable is empty", () => {
    expect(warnings({ AUTH_TOKEN: "x", DFLOCKD_AUTH_TOKEN: "y" })).toEqual([]);
    expect(warnings({ AUTH_TOKEN: "x" }, { "--auth-token": "y" })).toEqual([]);
    expect(warnings({ HTTP_SESSION_IDLE_S: "1" }, { "--http-session-idle": "1" })).toEqual([]);
    expect(warnings({ AUTH_TOKEN: "" })).toEqual([]);
  });

  test("right names are never warned about", () => {
    const labels = SETTINGS.flatMap(({ env, alias }) => [env, ...(alias ? [alias.env] : [])]);
    expect(warnings(Object.fromEntries(labels.map((name) => [name, "x"])))).toEqual([]);
    for (const name of labels) expect(warnings({ [name]: "x" })).toEqual([]);
  });

  test("is named on standard error when the server starts, one line each", async () => {
    const server = await startServe({ env: { AUTH_TOKEN: "hunter2", HOLDFAST_MAX_LOCKS: "hunter3" } });
    expect(server.stderr).toBe(
      "holdfast: the environment variable AUTH_TOKEN is not read: the setting is called DFLOCKD_AUTH_TOKEN\n" +
        "holdfast: the environment variable HOLDFAST_MAX_LOCKS is not read: the setting is called DFLOCKD_MAX_LOCKS\n",
    );
  });
});

test("the idle time of HTTP sessions is set by dflockd's flag, and by the short one", async () => {
  for (const flag of ["--http-session-idle-timeout", "--http-session-idle"]) {
    const server = await startServe({ args: [flag, "7"] });
    const reply = await fetch(`http://127.0.0.1:${server.httpPort}/v1/sessions`, { method: "POST" });
    expect(await reply.json()).toMatchObject({ idle_timeout_s: 7 });
  }
});
