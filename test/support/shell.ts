/**
 * The shell in which tests run the commands that documents and pages show. The programs in those commands that an install
 * does not bring are stand-ins from `bin/`, on every machine, so that what passes here passes anywhere.
 */
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const STAND_INS = fileURLToPath(new URL("bin", import.meta.url));

export const SHELL = "sh";

/** Nothing of the machine's own settings, such as a proxy, may come between. */
export function shellEnvironment(): Record<string, string> {
  const path = [STAND_INS, dirname(process.execPath), process.env.PATH ?? ""].join(delimiter);
  return { PATH: path, LC_ALL: "C", USER: "reader" };
}
