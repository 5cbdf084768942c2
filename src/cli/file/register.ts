import type { Command } from "commander";

/** Lists `file` among the commands. Its arguments are read by its own parser, which loads faster than this one. */
export function registerFile(root: Command): void {
  root
    .command("file")
    .description("lock files: try, acquire, release, refresh, status, wait, clean")
    .helpOption(false)
    .allowUnknownOption()
    .argument("[arguments...]")
    .action(async (args: string[]) => {
      const { runFile } = await import("./command.ts");
      process.exit(await runFile(args));
    });
}
