import { VERSION } from "../../version.ts";
import type { CommandSpec } from "../args/spec.ts";
import { FILE_OVERVIEW } from "../file/table.ts";
import { SERVER_COMMANDS } from "./server.ts";
import { CLIENT_COMMANDS } from "./table.ts";

/** Every command, in the order of `holdfast --help`. */
export const ALL_COMMANDS: readonly CommandSpec[] = [...CLIENT_COMMANDS, FILE_OVERVIEW, ...SERVER_COMMANDS];

/** `holdfast --help`: fits a screen of 24 lines and 80 columns. */
export function overview(): string {
  return [
    `holdfast ${VERSION}: distributed locks and semaphores`,
    "usage: holdfast COMMAND …    holdfast COMMAND --help: flags and examples",
    "",
    ...ALL_COMMANDS.map(({ name, summary }) => `  ${name.padEnd(11)} ${summary}`),
    "",
    "The server: --url or HOLDFAST_URL, default http://127.0.0.1:6389",
    "Its token:  --token-file, --token or HOLDFAST_TOKEN",
  ].join("\n");
}

/** `holdfast --version`. */
export function version(): string {
  return `holdfast ${VERSION}`;
}
