import type { Tool as Definition, ToolAnnotations } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

/** What an agent reads, and what its program reads. */
export interface Outcome {
  readonly text: string;
  readonly document?: Readonly<Record<string, unknown>>;
  /** The agent has not got what it asked for. */
  readonly isError?: boolean;
}

/** One call of a tool. */
export interface Call {
  /** Aborts when the client cancels the call, or is gone. */
  readonly signal: AbortSignal;
  /** Tells the client how long the call has lasted, and why. Does nothing if the client did not ask for that. */
  progress(seconds: number, message: string): void;
}

/** A tool that checks its arguments before it does anything. */
export interface Tool {
  readonly definition: Definition;
  call(args: unknown, call: Call): Promise<Outcome>;
}

interface Spec<Input extends z.ZodObject> {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly annotations: ToolAnnotations;
  readonly input: Input;
  readonly output: z.ZodObject;
  run(input: z.output<Input>, call: Call): Promise<Outcome>;
}

export function tool<Input extends z.ZodObject>(spec: Spec<Input>): Tool {
  const { name, title, description, annotations, input, output, run } = spec;
  return {
    definition: {
      name,
      title,
      description,
      inputSchema: schemaOf(input, "input"),
      outputSchema: schemaOf(output, "output"),
      annotations,
    },
    call: async (args, call) => {
      const parsed = input.safeParse(args ?? {});
      if (parsed.success) return run(parsed.data, call);
      return { text: `${name}: ${problemsIn(parsed.error, input)}. Nothing was done.`, isError: true };
    },
  };
}

/** Draft 7, which every MCP client can check. */
function schemaOf(schema: z.ZodObject, io: "input" | "output"): Definition["inputSchema"] {
  return z.toJSONSchema(schema, { target: "draft-7", io }) as Definition["inputSchema"];
}

function problemsIn({ issues }: z.ZodError, { shape }: z.ZodObject): string {
  const known = Object.keys(shape).join(", ");
  return issues
    .map((issue) =>
      issue.code === "unrecognized_keys"
        ? `there is no argument ${issue.keys.map((key) => JSON.stringify(key)).join(", ")} (there are: ${known})`
        : `${issue.path.join(".") || "arguments"} ${issue.message}`,
    )
    .join("; ");
}
