import { Command, CommanderError } from "commander";
import { Failure, reasonOf } from "../front/system/failure.ts";
import { packageVersion } from "../front/system/package.ts";
import { bridge } from "./bridge.ts";
import { BRIDGE_HELP, type BridgeFlags, readBridgeSettings } from "./bridge-settings.ts";
import { registerFile } from "./file/register.ts";
import { misnamedVariables } from "./misnamed.ts";
import { serve } from "./serve.ts";
import { addSettingFlags, complaintOf, flagsOf } from "./setting-flags.ts";
import { readSettings, SETTINGS } from "./settings.ts";

const USAGE_EXIT_CODE = 2;

function program(): Command {
  const root = new Command("holdfast")
    .description("Distributed locks and semaphores.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand(false)
    .exitOverride()
    .showSuggestionAfterError(false)
    .configureOutput({ writeErr: () => {} });

  const serveCommand = root
    .command("serve")
    .description("run the service on this machine")
    .addHelpText("after", "\nEvery flag is also an environment variable; a flag wins. Stop with Ctrl-C or SIGTERM.")
    .action((values: Record<string, string | true>) => {
      const flags = flagsOf(values);
      const settings = readSettings(flags, process.env);
      for (const line of misnamedVariables(SETTINGS, flags, process.env)) console.error(`holdfast: ${line}`);
      return serve(settings);
    });
  addSettingFlags(serveCommand);

  const bridgeCommand = root
    .command("bridge")
    .description("carry TCP connections to a deployed Worker over WebSockets")
    .action((flags: BridgeFlags) => bridge(readBridgeSettings(flags, process.env)));
  for (const [flags, help] of BRIDGE_HELP) bridgeCommand.option(flags, help);
  registerFile(root);
  return root;
}

/** The command that prints the help for a command line that begins with this word. */
function helpCommand(word: string | undefined): string {
  return word === "serve" || word === "bridge" ? `holdfast ${word} --help` : "holdfast --help";
}

/** The message for the user, in one line, and the exit code. */
function verdictOn(error: unknown): { readonly message: string; readonly exitCode: number } {
  if (error instanceof Failure) return { message: error.message, exitCode: error.exitCode };
  if (!(error instanceof CommanderError)) return { message: `internal error: ${reasonOf(error)}`, exitCode: 1 };
  if (error.exitCode === 0) return { message: "", exitCode: 0 };
  if (error.code === "commander.help")
    return { message: "no command given; see holdfast --help", exitCode: USAGE_EXIT_CODE };
  return { message: `${complaintOf(error)}; see ${helpCommand(process.argv[2])}`, exitCode: USAGE_EXIT_CODE };
}

for (const stream of [process.stdout, process.stderr]) {
  // If the reader of our output goes away, keep serving locks.
  stream.on("error", () => {});
}

try {
  await program().parseAsync();
  process.exit(0);
} catch (error) {
  const { message, exitCode } = verdictOn(error);
  if (message !== "") console.error(`holdfast: ${message}`);
  process.exit(exitCode);
}
