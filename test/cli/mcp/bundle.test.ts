/** What `holdfast mcp` adds to the package. The SDK has an HTTP side, which nothing here uses. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const CHUNKS = new URL("../../../dist/command/", import.meta.url);
const MAX_BYTES = 200_000;
/** esbuild writes the path of a module before its code. */
const MODULE = /^\/\/ node_modules\/((?:@[^/\n]+\/)?[^/\n]+)\//gm;

test("only this command loads the SDK, and nothing of its HTTP side is there", () => {
  const chunks = readdirSync(CHUNKS).map((name) => ({ name, text: readFileSync(new URL(name, CHUNKS), "utf8") }));
  const withSdk = chunks.filter(({ text }) => text.includes("// node_modules/@modelcontextprotocol/"));
  expect(withSdk.map(({ name }) => name)).toEqual([expect.stringMatching(/^mcp-\w+\.js$/)]);
  const [chunk] = withSdk;
  expect(chunk?.text.length).toBeLessThan(MAX_BYTES);
  const packages = chunks.flatMap(({ text }) => [...text.matchAll(MODULE)].map(([, name]) => name));
  expect(packages).toContain("ws");
  expect(
    packages.filter((name) => /^(express|cors|ajv|ajv-formats|raw-body|eventsource|cross-spawn)/.test(name ?? "")),
  ).toEqual([]);
  const loaders = chunks.filter(({ name, text }) => name !== chunk?.name && text.includes(chunk?.name ?? ""));
  // The table of commands, where it is a dynamic import.
  expect(loaders.map(({ text }) => text.includes(`import("./${chunk?.name}")`))).toEqual([true]);
});
