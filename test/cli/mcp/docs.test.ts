/** `docs/agents.md`: what it says about tools and set-up is what the command has. Its examples run in docs.long.test.ts. */
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { AgentLocks } from "../../../src/cli/mcp/agent-locks.ts";
import { toolsOf } from "../../../src/cli/mcp/tools.ts";
import { tableUnder } from "../../support/tables.ts";

const GUIDE = readFileSync(new URL("../../../docs/agents.md", import.meta.url), "utf8");

it("lists every tool with its arguments", () => {
  const target = { url: "http://127.0.0.1:1", token: undefined };
  const tools = toolsOf({ target, locks: new AgentLocks(target, () => {}), name: () => "ada" });
  const listed = tableUnder("| tool | arguments | answers |", GUIDE).map(([tool = "", args = ""]) => [
    tool.replaceAll("`", ""),
    [...args.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  ]);
  expect(listed).toEqual(
    tools.map(({ definition }) => [definition.name, Object.keys(definition.inputSchema.properties ?? {})]),
  );
});

it("shows configurations that are JSON and start the command", () => {
  const blocks = [...GUIDE.matchAll(/^```jsonc\n(.*?)^```$/gms)].map(([, text = ""]) => text);
  const servers = blocks
    .map((text) => JSON.parse(text.replace(/^\/\/.*\n/, "")) as Record<string, Record<string, object>>)
    .flatMap((document) => Object.values(document).flatMap(({ holdfast }) => (holdfast ? [holdfast] : [])));
  expect(servers).toHaveLength(4);
  for (const server of servers) expect(server).toMatchObject({ command: "holdfast", args: ["mcp"] });
});
