import type { Arguments } from "../args/parse.ts";
import { withService } from "../commands/context.ts";
import { withDecimalFences } from "../commands/ls.ts";
import { CommandError } from "../output/errors.ts";
import { Printer } from "../output/printer.ts";
import type { HttpService } from "../service/http.ts";
import { type KeyPage, pageOfKeys } from "../service/keys.ts";
import { stopRequested } from "../signals.ts";
import { bodyLength, clampOffset, renderScreen, renderSnapshot, type View } from "./render.ts";
import { type Key, Terminal } from "./terminal.ts";

/** More keys than fit a useful view; each of them is asked every second. */
const MAX_KEYS = 500;
const REFRESH_MS = 1_000;

/** `holdfast top`: a live view on a terminal, one snapshot elsewhere. */
export async function main(args: Arguments): Promise<number> {
  const [prefix = ""] = args.operands;
  return withService(args, async (service) => {
    // The live view needs an answer too: without one there is nothing to open a screen for.
    const page = await pageOfKeys(service, prefix, MAX_KEYS);
    const isLive = process.stdout.isTTY && process.env.TERM !== "dumb" && args.output === "text";
    if (isLive) return watch(service, prefix, page);
    const view = { url: service.target.url, prefix, page, ageSeconds: 0, problem: undefined };
    const { keys, next, ...counts } = page;
    const document = { ...counts, keys: keys.map(withDecimalFences), is_complete: next === undefined };
    new Printer(args.output).result(document, renderSnapshot(view));
  });
}

async function watch(service: HttpService, prefix: string, first: KeyPage): Promise<void> {
  const state = { page: first, since: performance.now(), offset: 0, problem: undefined as string | undefined };
  const view = (): View => ({
    url: service.target.url,
    prefix,
    page: state.page,
    ageSeconds: (performance.now() - state.since) / 1000,
    problem: state.problem,
  });
  let quit: () => void = () => {};
  const quitting = new Promise<void>((resolve) => {
    quit = resolve;
  });
  const draw = () => terminal.show(renderScreen(view(), { ...terminal.size, offset: state.offset }));
  const press = (key: Key) => {
    if (key === "quit") return quit();
    const { columns, rows } = terminal.size;
    state.offset = clampOffset(moved(state.offset, key, rows), bodyLength(view(), columns), { rows });
    draw();
  };
  const terminal = new Terminal(process, { key: press, resized: draw });
  void stopRequested(quit).then(quit);
  const refresh = async () => {
    try {
      state.page = await pageOfKeys(service, prefix, MAX_KEYS);
      state.since = performance.now();
      state.problem = undefined;
    } catch (error) {
      // Keep the last answer on the screen; its leases run on.
      state.problem = error instanceof CommandError ? error.message : String(error);
    }
    draw();
    timer = setTimeout(() => void refresh(), REFRESH_MS);
  };
  draw();
  let timer = setTimeout(() => void refresh(), REFRESH_MS);
  await quitting;
  clearTimeout(timer);
  terminal.leave();
}

function moved(offset: number, key: Exclude<Key, "quit">, rows: number): number {
  switch (key) {
    case "up":
      return offset - 1;
    case "down":
      return offset + 1;
    case "page up":
      return offset - rows;
    case "page down":
      return offset + rows;
    case "home":
      return 0;
    default:
      return key satisfies never;
  }
}
