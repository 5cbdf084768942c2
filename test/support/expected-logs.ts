/**
 * What the service logs is part of what a test promises. A test names the events that it makes the service log. Each of them
 * has to come, and any other line fails the test. Nothing of this is printed, unless it fails.
 */
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";
import { forgetFloods } from "../../src/log.ts";

/** The fields of a line that have to have this value or, as text, match it. */
export type LoggedFields = Readonly<Record<string, string | number | RegExp>>;

type Line = Readonly<Record<string, unknown>>;

interface Expectation {
  readonly event: string;
  readonly fields: LoggedFields;
  isNeeded: boolean;
}

/** Objects of the file before may still be at work when the test runner deletes them, and say that they cannot go on. */
const TAKEN_DOWN = /Application called deleteAllDurableObjects|EnvironmentTeardownError/;
const LEVELS = ["debug", "info", "log", "warn", "error"] as const;
/** The client may hear of something before it is logged. */
const PATIENCE_MS = 3_000;
const LOOK_EVERY_MS = 5;

const expectations: Expectation[] = [];
/** Logged in the test that runs. */
const lines: Line[] = [];
const { setTimeout: setRealTimeout } = globalThis;

/**
 * The service logs this event in this test, once or more often. It may be called before or after that. Until the end of the
 * file, further lines of the same kind are expected as well: objects may still be at work when their test is over.
 */
export function expectLog(event: string, fields: LoggedFields = {}): void {
  expectations.push({ event, fields, isNeeded: true });
}

/** The service may log this event or not: the test leaves it to chance. */
export function allowLog(event: string, fields: LoggedFields = {}): void {
  expectations.push({ event, fields, isNeeded: false });
}

/** For setup files: watches the log in all tests of a file. */
export function watchLogs(): void {
  const originals = LEVELS.map((level) => [level, console[level]] as const);

  beforeAll(() => {
    expectations.length = 0;
    lines.length = 0;
    for (const [level, print] of originals) console[level] = (...args: unknown[]) => heard(args, print);
  });
  beforeEach(forgetFloods);
  afterEach(async ({ task }) => {
    if (task.result?.state !== "fail") await allLogged();
    failOnSurprises();
  });
  afterAll(() => {
    for (const [level, print] of originals)
      console[level] = (...args: unknown[]) => {
        if (!TAKEN_DOWN.test(String(parsed(args[0])?.error))) print.apply(console, args);
      };
    failOnSurprises();
  });
}

function heard(args: readonly unknown[], print: (...args: unknown[]) => void): void {
  const line = parsed(args[0]);
  if (line && TAKEN_DOWN.test(String(line.error))) return;
  // Somebody looks for a mistake.
  if (!line) print.apply(console, [...args]);
  lines.push(line ?? { event: "printed", text: args.map(String).join(" ") });
}

function parsed(text: unknown): Line | undefined {
  if (typeof text !== "string" || !text.startsWith("{")) return undefined;
  try {
    return JSON.parse(text) as Line;
  } catch {
    return undefined;
  }
}

function matches(line: Line, { event, fields }: Expectation): boolean {
  if (line.event !== event) return false;
  return Object.entries(fields).every(([name, expected]) =>
    expected instanceof RegExp ? expected.test(String(line[name])) : line[name] === expected,
  );
}

async function allLogged(): Promise<void> {
  const missing = () => expectations.filter((each) => each.isNeeded && !lines.some((line) => matches(line, each)));
  for (let left = PATIENCE_MS; left > 0 && missing().length > 0; left -= LOOK_EVERY_MS) {
    await new Promise<void>((resolve) => setRealTimeout(resolve, LOOK_EVERY_MS));
  }
  const unmet = missing().map(({ event, fields }) => [event, ...Object.entries(fields).map((each) => each.join("="))]);
  // Each fails its own test and no other.
  for (const expectation of expectations) expectation.isNeeded = false;
  if (unmet.length > 0)
    throw new Error(`expected in the log, but not there:\n${unmet.map((words) => words.join(" ")).join("\n")}`);
}

function failOnSurprises(): void {
  const surprises = lines.splice(0).filter((line) => !expectations.some((each) => matches(line, each)));
  if (surprises.length === 0) return;
  throw new Error(
    `logged, but not expected with \`expectLog\`:\n${surprises.map((line) => JSON.stringify(line)).join("\n")}`,
  );
}
