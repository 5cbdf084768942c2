/** The start of the `holdfast` command: loads no more than the command at hand needs. */
const [command, ...args] = process.argv.slice(2);

if (command === "file") {
  const { runFile } = await import("./file/command.ts");
  process.exitCode = await runFile(args);
} else {
  await import("./main.ts");
}

export {};
