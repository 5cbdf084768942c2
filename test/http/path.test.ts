import { expect, test } from "vitest";
import { rawPath } from "../../src/http/request/path.ts";

const pathOf = (path: string) => rawPath({ url: `http://localhost:6389${path}` });

test("a path is taken as it was sent, without its query", () => {
  for (const path of ["/", "/v1/locks/a%2Fb", "/v1/locks/%zz", "/v1/locks//", "/v1/locks/a..b", "/v1/locks/..."]) {
    expect(pathOf(path)).toBe(path);
    expect(pathOf(`${path}?x=/y#z`)).toBe(path);
  }
});

test("`.` and `..` are steps in a path, never keys, however they are written", () => {
  for (const step of [".", "%2e", "%2E"]) {
    expect(pathOf(`/v1/locks/${step}`)).toBe("/v1/locks/");
    expect(pathOf(`/v1/locks/${step}/release`)).toBe("/v1/locks/release");
  }
  for (const step of ["..", ".%2e", "%2e.", "%2E%2e"]) {
    expect(pathOf(`/v1/locks/${step}`)).toBe("/v1/");
    expect(pathOf(`/v1/locks/x/${step}/k?x=1`)).toBe("/v1/locks/k");
  }
  expect(pathOf("//elsewhere/../k")).toBe("//k");
});
