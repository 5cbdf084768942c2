/** The start of the `holdfast` command: loads no more than the command at hand needs. */
import { clientCommand, runClientCommand } from "./commands/dispatch.ts";

const [name = "", ...words] = process.argv.slice(2);

for (const stream of [process.stdout, process.stderr]) {
  // A reader of our output that went away is no reason to give up a lock.
  stream.on("error", () => {});
}

const command = clientCommand(name);
if (command) process.exit(await runClientCommand(command, words));
else if (/^(-h|--help|-V|--version)$/.test(name)) (await import("./commands/overview.ts")).printOverview(name);
else await import("./main.ts");
