/**
 * Runs the examples of a document as its reader would: ```sh blocks in a shell, one after the other, sharing their variables;
 * what a block prints must match the ```json or ```text block that follows it, and be nothing if none does. A block with
 * `npm start` begins anew, with a server started with the flags that stand there.
 */
import { execFile } from "node:child_process";
import { SHELL, shellEnvironment } from "./shell.ts";

export interface Example {
  /** Where the commands stand in the document. */
  readonly line: number;
  readonly commands: string;
  readonly expected: Expected | undefined;
}

export interface Expected {
  readonly kind: "json" | "text";
  readonly pattern: string;
}

/** Examples that share a server and a shell. */
export interface Chapter {
  readonly flags: readonly string[];
  readonly examples: Example[];
}

const BLOCK = /^```(\w+)\n(.*?)^```$/gms;
const START = /^npm start(?: -- (.+))?$/;

export function chaptersOf(markdown: string): Chapter[] {
  const chapters: Chapter[] = [];
  let asked: Omit<Example, "expected"> | undefined;
  const answer = (expected: Expected | undefined) => {
    const chapter = chapters.at(-1);
    if (asked && !chapter) throw new Error(`line ${asked.line}: no server has been started`);
    if (asked) chapter?.examples.push({ ...asked, expected });
    asked = undefined;
  };
  for (const { 1: kind, 2: block = "", index } of markdown.matchAll(BLOCK)) {
    const line = markdown.slice(0, index).split("\n").length + 1;
    const text = block.trimEnd();
    if (kind === "sh") {
      answer(undefined);
      const start = START.exec(text);
      if (start) chapters.push({ flags: start[1]?.split(" ") ?? [], examples: [] });
      else asked = { line, commands: text };
    } else if (kind === "json" || kind === "text") {
      if (!asked) throw new Error(`line ${line}: an answer without a command`);
      answer({ kind, pattern: text });
    }
  }
  answer(undefined);
  if (chapters.every(({ examples }) => examples.length === 0)) throw new Error("no examples");
  return chapters;
}

const HEX = (digits: number) => `[0-9a-f]{${digits}}`;

/** What the words in angle brackets stand for. */
const SHAPES: Readonly<Record<string, string>> = {
  session: HEX(32),
  token: HEX(32),
  fence: HEX(16),
  owner: "[1-9][0-9]*",
  count: "[0-9]+",
  pid: "[0-9]+",
  seconds: "[0-9]+(?:\\.[0-9]+)?",
  time: "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z",
  ticket: "[\\w-]+\\.[\\w-]+\\.[\\w-]+",
};
const ANY_LINES = "(?:.*\\n)*?";

/**
 * Whether this was printed. Text matches line by line, `…` alone standing for any lines; in JSON, line breaks and blanks
 * around them are for the reader of the document only.
 */
export function isAsPrinted(expected: Expected | undefined, output: string): boolean {
  if (!expected) return output === "";
  const isJson = expected.kind === "json";
  const printed = isJson ? joined(output) : output.replaceAll("\r\n", "\n");
  const lines = (isJson ? joined(expected.pattern) : expected.pattern).split("\n");
  const source = lines.map((line) => (line === "…" ? ANY_LINES : `${lineSource(line)}\\n`)).join("");
  return new RegExp(`^${source}$`).test(printed.endsWith("\n") ? printed : `${printed}\n`);
}

function joined(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.join("");
}

function lineSource(line: string): string {
  const parts = line.split(/(<\w+>|…)/);
  return parts.map((part, index) => (index % 2 === 1 ? shapeOf(part) : escaped(part))).join("");
}

function shapeOf(placeholder: string): string {
  if (placeholder === "…") return ".*?";
  const shape = SHAPES[placeholder.slice(1, -1)];
  if (shape === undefined) throw new Error(`nobody knows what ${placeholder} looks like`);
  return shape;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Between the outputs of two examples; no program prints it by itself. */
const SEPARATOR = "\x1e";
const TAKES_AT_MOST_MS = 30_000;

/** What each example printed on standard output. Fails if one of them ends with an error or complains. */
export async function play(examples: readonly Example[], httpPort: number): Promise<string[]> {
  const steps = examples.map(({ commands }) => `${commands}\nprintf '${SEPARATOR}'`);
  const script = ["set -eu", ...steps].join("\n").replaceAll("localhost:6389", `127.0.0.1:${httpPort}`);
  const { error, stdout, stderr } = await run(script);
  const outputs = stdout.split(SEPARATOR).slice(0, -1);
  const stuck = examples[outputs.length];
  if (stuck) throw new Error(`line ${stuck.line}: ${stuck.commands}\nended with ${error}\n${stderr}`);
  if (stderr !== "") throw new Error(`the examples complain: ${stderr}`);
  return outputs;
}

interface Ran {
  readonly error: Error | null;
  readonly stdout: string;
  readonly stderr: string;
}

function run(script: string): Promise<Ran> {
  const options = { env: shellEnvironment(), timeout: TAKES_AT_MOST_MS };
  return new Promise((resolve) => {
    execFile(SHELL, ["-c", script], options, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });
}
