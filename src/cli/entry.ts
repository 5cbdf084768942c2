/** Entry point of the `holdfast` command: loads only what the command needs. */
const [name = "", ...words] = process.argv.slice(2);

if (name === "file") {
  const { runFile } = await import("./file/main.ts");
  process.exit(await runFile(words));
} else {
  const { dispatch } = await import("./commands/dispatch.ts");
  process.exit(await dispatch(name, words));
}

export {};
