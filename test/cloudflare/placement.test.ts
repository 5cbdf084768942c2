import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { keyObject, objectsOf } from "../../src/cloudflare/placement.ts";
import { askKey, command, fresh, grantedToken, keyStub } from "./support.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const placed = (variables: Record<string, string>) => ({ ...env, ...variables });

describe("a key", () => {
  it("is placed near the hint of its prefix, and wherever the platform likes without one", () => {
    const getByName = vi.fn();
    const hinted = { ...placed({ LOCATION_HINTS: "eu/=weur,eu/east/=eeur" }), KEY: { getByName } };
    for (const key of ["eu/1", "eu/east/1", "us/1"]) keyObject(hinted as unknown as typeof env, key);
    expect(getByName.mock.calls).toEqual([
      ["eu/1", { locationHint: "weur" }],
      ["eu/east/1", { locationHint: "eeur" }],
      ["us/1", undefined],
    ]);
  });

  it("works on the real runtime with a hint, and stays the object that it is without one", async () => {
    const key = fresh("eu/key");
    const token = grantedToken(
      await askKey(keyObject(placed({ LOCATION_HINTS: "eu/=weur" }), key), { type: "acquire", command: command() }),
    );
    expect(await askKey(keyStub(key), { type: "release", token, session: "" })).toMatchObject({ status: "released" });
  });
});

describe("a jurisdiction", () => {
  it.each([
    ...(["KEY", "SESSION", "HTTP_SESSION", "DIRECTORY"] as const),
    ...(["METRICS", "RATE_LIMIT", "RELAY"] as const),
  ])("binds %s", (kind) => {
    const bound = {};
    const jurisdiction = vi.fn(() => bound);
    const european = { ...placed({ JURISDICTION: "eu" }), [kind]: { jurisdiction } };
    expect(objectsOf(european, kind)).toBe(bound);
    expect(jurisdiction.mock.calls).toEqual([["eu"]]);
    expect(objectsOf(env, kind)).toBe(env[kind]);
  });

  it("is never left: a runtime that has none serves nothing", () => {
    expect(() => keyObject(placed({ JURISDICTION: "eu" }), fresh("key"))).toThrow("not implemented");
  });
});
