import { clientCommand, runClientCommand } from "./commands/dispatch.ts";

for (const stream of [process.stdout, process.stderr]) {
  // A reader of our output that went away is no reason to stop serving locks.
  stream.on("error", () => {});
}

const [name = "", ...words] = process.argv.slice(2);
process.exit(await run());

/** Loads only what the command needs: most of them end after a few milliseconds of work. */
async function run(): Promise<number> {
  const command = clientCommand(name);
  if (command) return runClientCommand(command, words);
  if (name === "--help" || name === "-h") return (await import("./commands/overview.ts")).printOverview();
  return (await import("./server.ts")).runServerCommand();
}
