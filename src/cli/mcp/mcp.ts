import { finished } from "node:stream/promises";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { LABEL } from "../args/flags.ts";
import type { Arguments } from "../args/parse.ts";
import { labelIn } from "../args/values.ts";
import { printable } from "../output/printable.ts";
import { write } from "../output/printer.ts";
import { targetOf } from "../service/target.ts";
import { stopRequested } from "../signals.ts";
import { agentServer } from "./server.ts";

const STDERR = 2;
const note = (line: string) => write(STDERR, [printable(`holdfast: ${line}`)]);

/** `holdfast mcp`: serves one MCP client until it is gone or a signal arrives, and gives back what it holds. */
export async function main(args: Arguments): Promise<number> {
  const target = await targetOf(args, process.env);
  const { server, locks } = agentServer(target, labelIn(args, LABEL));
  const stopping = stopRequested(() => process.exit(1));
  const transport = new StdioServerTransport();
  server.onerror = (error) => note(`MCP: ${problemOf(error)}`);
  const closed = new Promise<void>((resolve) => {
    server.onclose = resolve;
  });
  await server.connect(transport);
  await Promise.race([stopping, closed, endOf(process.stdin), endOf(process.stdout)]);
  // Ends the waits of calls that are under way, and reads nothing more.
  await server.close();
  for (const key of await locks.close())
    note(`the release of ${key} was not confirmed: it is free when its lease ends`);
  return 0;
}

/** The first line, if it says something: a message that fits no schema is described by pages of JSON. */
function problemOf({ message }: Error): string {
  const [line = ""] = message.split("\n", 1);
  return /\w/.test(line) ? line : "a message is not JSON-RPC 2.0";
}

/** Resolves when the client has closed its side of the stream. */
function endOf(stream: NodeJS.ReadStream | NodeJS.WriteStream): Promise<void> {
  return finished(stream).catch(() => {});
}
