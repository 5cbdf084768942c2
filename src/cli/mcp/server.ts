import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from "@modelcontextprotocol/sdk/types.js";
import { reasonOf } from "../../node/listeners/failure.ts";
import { VERSION } from "../../version.ts";
import { CommandError } from "../output/errors.ts";
import { printable } from "../output/printable.ts";
import type { Target } from "../service/target.ts";
import { AgentLocks } from "./agent-locks.ts";
import { lossDocument, lossText } from "./documents.ts";
import { agentName } from "./labels.ts";
import type { Outcome } from "./tool.ts";
import { toolsOf } from "./tools.ts";

const INSTRUCTIONS = `Locks that coding agents, people and programs share. Acquire the key of a resource before you change it while others may do the same (edit schema.sql, deploy, migrate a database), and release it when you are done. If it is busy, somebody else is at work there: do not touch the resource. Locks you hold are renewed for you, and given back when this session ends. If a result says LOST, stop what relied on that lock.`;

/** An MCP server for one client, and the locks that it holds for it. It is not connected yet. */
export function agentServer(target: Target, givenName: string | undefined): { server: Server; locks: AgentLocks } {
  const server = new Server(
    { name: "holdfast", title: "holdfast locks", version: VERSION },
    { capabilities: { tools: {}, logging: {} }, instructions: INSTRUCTIONS },
  );
  const locks = new AgentLocks(target, (loss) => {
    // The client may be gone: then there is nobody to tell.
    server.sendLoggingMessage({ level: "warning", logger: "holdfast", data: lossText(loss) }).catch(() => {});
  });
  const name = () => agentName(givenName, server.getClientVersion()?.name);
  const tools = toolsOf({ target, locks, name });
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: tools.map(({ definition }) => definition) }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal, sendNotification, _meta }) => {
    const called = tools.find(({ definition }) => definition.name === params.name);
    if (!called) {
      const names = tools.map(({ definition }) => definition.name).join(", ");
      throw new McpError(
        ErrorCode.InvalidParams,
        `there is no tool ${JSON.stringify(params.name)}: there are ${names}`,
      );
    }
    const progressToken = _meta?.progressToken;
    const progress = (seconds: number, message: string) => {
      if (progressToken === undefined) return;
      const report = { progressToken, progress: seconds, message };
      sendNotification({ method: "notifications/progress", params: report }).catch(() => {});
    };
    const outcome = await called.call(params.arguments, { signal, progress }).catch(failed);
    // The answer to a cancelled call is not sent: the next one tells the losses.
    return resultOf(outcome, signal.aborted ? [] : locks.takeLosses());
  });
  return { server, locks };
}

function failed(error: unknown): Outcome {
  const text = error instanceof CommandError ? error.message : `internal error: ${reasonOf(error)}`;
  return { text: printable(text), isError: true };
}

function resultOf(
  { text, document, isError = false }: Outcome,
  losses: ReturnType<AgentLocks["takeLosses"]>,
): CallToolResult {
  const lost = losses.length === 0 ? {} : { lost: losses.map(lossDocument) };
  return {
    content: [...losses.map(lossText), text].map((each) => ({ type: "text", text: each })),
    ...(document ? { structuredContent: { ...document, ...lost } } : {}),
    ...(isError ? { isError } : {}),
  };
}
