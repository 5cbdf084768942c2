import { Command, CommanderError, Option } from "commander";
import { packageVersion } from "../front/system/package.ts";
import { Failure, reasonOf } from "../node/listeners/failure.ts";
import { bridge } from "./bridge.ts";
import { BRIDGE_HELP, type BridgeFlags, readBridgeSettings } from "./bridge-settings.ts";
import { registerFile } from "./file/register.ts";
import { misnamedVariables } from "./misnamed.ts";
import { serve } from "./serve.ts";
import { readSettings, SETTINGS, type Setting } from "./settings.ts";

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
  for (const setting of SETTINGS) {
    serveCommand.addOption(optionOf(setting));
    if (setting.alias) serveCommand.addOption(optionOf({ ...setting, ...setting.alias }).hideHelp());
  }

  const bridgeCommand = root
    .command("bridge")
    .description("carry TCP connections to a deployed Worker over WebSockets")
    .action((flags: BridgeFlags) => bridge(readBridgeSettings(flags, process.env)));
  for (const [flags, help] of BRIDGE_HELP) bridgeCommand.option(flags, help);
  registerFile(root);
  return root;
}

function optionOf({ flag, env, help, fallback, isBoolean }: Setting): Option {
  const words = [help, fallback === undefined ? undefined : `(default: ${fallback})`, `[${env}]`];
  const option = new Option(`${flag} ${isBoolean ? "[true|false]" : "<value>"}`, words.filter(Boolean).join(" "));
  return help === undefined ? option.hideHelp() : option;
}

/** Commander's values by flag name; a bare switch means true. */
function flagsOf(values: Record<string, string | true>): Record<string, string> {
  const flags: Record<string, string> = {};
  for (const { flag, alias } of SETTINGS) {
    for (const name of alias ? [flag, alias.flag] : [flag]) {
      const value = values[new Option(name).attributeName()];
      if (value !== undefined) flags[name] = String(value);
    }
  }
  return flags;
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
  // A mistyped `--auth-tokn=secret` must not end up in a log: remove the value.
  const message = error.message
    .replace(/^error: /, "")
    .replace(/'(--[^'=]+)=.*'/s, "'$1'")
    .replaceAll("\n", " ")
    .replace(". Expected", ": expected")
    .replace(/\.$/, "");
  return { message: `${message}; see ${helpCommand(process.argv[2])}`, exitCode: USAGE_EXIT_CODE };
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
