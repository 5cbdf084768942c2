import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { publishedManifest } from "../../scripts/manifest.ts";
import { checkNode } from "../../src/cli/commands/server.ts";
import { ROOT } from "./support.ts";

const manifestIn = (folder: string) =>
  JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Record<string, unknown>;

test.each([".", "packages/client"])("what users get of %s has nothing that only this repository needs", (folder) => {
  const manifest = publishedManifest(manifestIn(folder));
  for (const name of ["devDependencies", "workspaces", "scripts", "overrides", "allowScripts"])
    expect(manifest).not.toHaveProperty(name);
  expect(manifest).toMatchObject({ version: "0.1.0", license: "MIT", type: "module", files: expect.any(Array) });
});

test("the manifest, the server's message and the docs name the same oldest Node", () => {
  expect(publishedManifest(manifestIn("."))).toMatchObject({ engines: { node: ">=22.13" }, bin: expect.anything() });
  expect(() => checkNode("22.12.0")).toThrow("holdfast serve needs Node 22.13 or newer, and this is 22.12.0");
  expect(() => checkNode("22.13.0")).not.toThrow();
  for (const page of ["README.md", "docs/operations.md", "docs/cli.md"]) {
    const text = readFileSync(join(ROOT, page), "utf8");
    expect(text.replaceAll("\n", " "), page).toMatch(/`(holdfast )?serve` needs (Node )?22\.13 or newer/);
  }
});
