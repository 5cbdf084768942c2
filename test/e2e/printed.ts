import { expect } from "vitest";
import { type RunningServe, startServe } from "../cli/support.ts";
import { type Chapter, isAsPrinted, play } from "../support/examples.ts";

/** Plays the examples of a chapter. Resolves with the server, as they have left it. */
export async function expectAsPrinted({ flags, examples }: Chapter): Promise<RunningServe> {
  const server = await startServe({ args: [...flags] });
  const outputs = await play(examples, server.httpPort);
  for (const [index, { line, commands, expected }] of examples.entries()) {
    const output = outputs[index] ?? "";
    if (isAsPrinted(expected, output)) continue;
    expect.fail(`line ${line}: ${commands}\nshould print\n${expected?.pattern ?? "nothing"}\nand prints\n${output}`);
  }
  return server;
}
