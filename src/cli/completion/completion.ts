import type { Arguments } from "../args/parse.ts";
import { UsageError } from "../output/errors.ts";
import { bashScript } from "./bash.ts";
import { fishScript } from "./fish.ts";
import { SHELLS, type Shell } from "./shells.ts";
import { completedCommands } from "./words.ts";
import { zshScript } from "./zsh.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** `holdfast completion SHELL`. */
export async function main(args: Arguments): Promise<number> {
  const [shell = ""] = args.operands;
  if (!isShell(shell)) throw new UsageError(`SHELL must be ${SHELLS.join(", ")}`);
  process.stdout.write(SCRIPTS[shell](completedCommands()));
  return 0;
}

function isShell(text: string): text is Shell {
  return (SHELLS as readonly string[]).includes(text);
}
