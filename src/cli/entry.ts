/** Entry point of the `holdfast` command: loads only what the command needs. */
const [name = "", ...words] = process.argv.slice(2);

if (name === "file") {
  const { runFile } = await import("./file/command.ts");
  process.exitCode = await runFile(words);
} else if (/^(-h|--help|-V|--version)$/.test(name)) {
  const { printOverview } = await import("./commands/overview.ts");
  printOverview(name);
} else {
  const { clientCommand, runClientCommand } = await import("./commands/dispatch.ts");
  const command = clientCommand(name);
  if (command) process.exit(await runClientCommand(command, words));
  else await import("./main.ts");
}

export {};
