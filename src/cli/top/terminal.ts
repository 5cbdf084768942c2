import { emitKeypressEvents } from "node:readline";
import type { Line, Screen } from "./render.ts";

const ENTER = "\x1b[?1049h\x1b[?25l";
const LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l";
const STYLES: Readonly<Record<Line["style"], string>> = {
  plain: "",
  bold: "\x1b[1m",
  dim: "\x1b[2m",
  reverse: "\x1b[7m",
  warning: "\x1b[1;7m",
};

/** The action for a key press. */
export type Key = "quit" | "up" | "down" | "page up" | "page down" | "home";

/** By the names that `node:readline` gives to keys. */
const KEYS: Readonly<Record<string, Key>> = {
  q: "quit",
  k: "up",
  up: "up",
  j: "down",
  down: "down",
  pageup: "page up",
  pagedown: "page down",
  space: "page down",
  home: "home",
  g: "home",
};

/** The action for a key press, if it has one. Ctrl-C and Ctrl-D quit. */
export function actionOf({ name = "", ctrl }: { readonly name?: string; readonly ctrl?: boolean }): Key | undefined {
  if (ctrl) return name === "c" || name === "d" ? "quit" : undefined;
  return KEYS[name];
}

/**
 * The text that draws a screen. Every line is positioned, so that nothing scrolls. Lines are as wide as the screen and
 * cover what was there; erasing after them would remove their last column.
 */
export function drawn(lines: readonly Line[]): string {
  const rows = lines.map(({ text, style }, row) => `\x1b[${row + 1};1H${STYLES[style]}${text}\x1b[0m`);
  return rows.join("");
}

export interface TerminalEvents {
  key(key: Key): void;
  resized(): void;
}

/** The streams of a process that are needed. */
export interface Streams {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
}

/**
 * Takes over the whole terminal until it is left. However the process ends, short of SIGKILL, the terminal is restored.
 */
export class Terminal {
  readonly #streams: Streams;
  #isOver = false;

  constructor(streams: Streams, events: TerminalEvents) {
    this.#streams = streams;
    const { stdin, stdout } = streams;
    process.once("exit", () => this.leave());
    stdout.write(ENTER);
    stdout.on("resize", () => events.resized());
    if (!stdin.isTTY) return;
    stdin.setRawMode(true);
    emitKeypressEvents(stdin);
    stdin.on("keypress", (_, pressed) => {
      const key = actionOf(pressed);
      if (key) events.key(key);
    });
    // The terminal is gone.
    stdin.on("end", () => events.key("quit"));
  }

  get size(): Pick<Screen, "columns" | "rows"> {
    const { columns, rows } = this.#streams.stdout;
    return { columns: columns || 80, rows: rows || 24 };
  }

  show(lines: readonly Line[]): void {
    if (!this.#isOver) this.#streams.stdout.write(drawn(lines));
  }

  leave(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { stdin, stdout } = this.#streams;
    if (stdin.isTTY) stdin.setRawMode(false);
    stdin.pause();
    stdout.write(LEAVE);
  }
}
