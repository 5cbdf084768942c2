/** `holdfast mcp` as an agent's program starts it: JSON-RPC over the pipes of a real process. */
import { Ajv } from "ajv";
import { expect } from "vitest";
import { type Started, start } from "../processes.ts";
import { eventually } from "../support.ts";

export interface Message {
  readonly jsonrpc: "2.0";
  readonly id?: number;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
}

interface Listed {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: object;
  readonly outputSchema: object;
}

export interface Answer {
  readonly isError: boolean;
  /** Each piece of text. */
  readonly texts: readonly string[];
  readonly document: Record<string, unknown> | undefined;
}

const ANSWERED_WITHIN_MS = 30_000;

/** An MCP client that checks all it is told: every line of output is a message, every document fits its schema. */
export class Agent implements AsyncDisposable {
  readonly process: Started;
  tools: readonly Listed[] = [];
  #nextId = 1;

  private constructor(process: Started) {
    this.process = process;
  }

  static async start(url: string, { args = [], name = "test-agent" }: { args?: string[]; name?: string } = {}) {
    const agent = new Agent(start(["mcp", "--url", url, ...args]));
    const { result } = await agent.ask("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name, version: "1.0.0" },
    });
    expect(result).toMatchObject({
      serverInfo: { name: "holdfast" },
      capabilities: { tools: {}, logging: {} },
      instructions: expect.stringContaining("Acquire"),
    });
    agent.notify("notifications/initialized", {});
    agent.tools = (await agent.ask("tools/list", {})).result?.tools as Listed[];
    return agent;
  }

  /** Everything it has said so far. Throws if it said anything else. */
  get messages(): Message[] {
    const lines = this.process.stdout.split("\n").slice(0, -1);
    return lines.map((line) => {
      const message = JSON.parse(line) as Message;
      expect(message.jsonrpc, line).toBe("2.0");
      return message;
    });
  }

  notify(method: string, params: object): void {
    this.write(`${JSON.stringify({ jsonrpc: "2.0", method, params })}\n`);
  }

  write(text: string): void {
    this.process.child.stdin?.write(text);
  }

  /** Sends a request. Resolves with its id, without waiting for the answer. */
  send(method: string, params: object): number {
    const id = this.#nextId;
    this.#nextId += 1;
    this.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return id;
  }

  answered(id: number): Promise<Message> {
    const find = () => this.messages.find((message) => message.id === id);
    return eventually(`answer ${id}, with ${this.process.stderr}`, find, ANSWERED_WITHIN_MS);
  }

  ask(method: string, params: object): Promise<Message> {
    return this.answered(this.send(method, params));
  }

  /** Calls a tool without waiting for the answer. */
  begin(name: string, args: object, progressToken?: string): number {
    return this.send("tools/call", { name, arguments: args, ...(progressToken ? { _meta: { progressToken } } : {}) });
  }

  async call(name: string, args: object): Promise<Answer> {
    return this.answerOf(name, this.begin(name, args));
  }

  async answerOf(name: string, id: number): Promise<Answer> {
    const { result, error } = await this.answered(id);
    expect(error).toBeUndefined();
    const {
      content,
      structuredContent,
      isError = false,
    } = result as {
      content: { type: string; text: string }[];
      structuredContent?: Record<string, unknown>;
      isError?: boolean;
    };
    expect(content.map(({ type }) => type)).toEqual(content.map(() => "text"));
    const schema = this.tools.find((tool) => tool.name === name)?.outputSchema ?? {};
    if (structuredContent) {
      const validate = new Ajv().compile(schema);
      expect(validate(structuredContent), JSON.stringify(validate.errors)).toBe(true);
    }
    // Programs that read documents have one whenever the call did not fail.
    if (!isError) expect(structuredContent).toBeDefined();
    return { isError, texts: content.map(({ text }) => text), document: structuredContent };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.process[Symbol.asyncDispose]();
    // Whatever happened in the test, nothing but the protocol was on standard output.
    expect(this.messages.length).toBeGreaterThan(0);
  }
}
