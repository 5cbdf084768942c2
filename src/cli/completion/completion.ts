import type { Arguments } from "../args/parse.ts";
import { UsageError } from "../output/errors.ts";
import { bashScript } from "./bash.ts";
import { fishScript } from "./fish.ts";
import { completedCommands, SHELLS } from "./words.ts";
import { zshScript } from "./zsh.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** `holdfast completion SHELL`. */
export async function main({ operands }: Arguments): Promise<number> {
  const shell = SHELLS.find((name) => name === operands[0]);
  if (!shell) throw new UsageError(`SHELL must be ${SHELLS.join(", ")}`);
  process.stdout.write(SCRIPTS[shell](completedCommands()));
  return 0;
}
