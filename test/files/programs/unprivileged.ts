/** `holdfast file` as a user who may not do everything: root reads and writes what it likes. Says its exit code and output as JSON. */
import { runFile } from "../../../src/cli/file/main.ts";

if (process.getuid?.() === 0) {
  process.setgid?.(65_534);
  process.setuid?.(65_534);
}
process.exitCode = await runFile(process.argv.slice(2));
